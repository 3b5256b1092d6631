//===- tests/pairs/faults_test.cpp - whether faults of links are found, each where it is ------===//
//
// Eight CPU ranks, with faults at places drawn at random. Each has to be named with its pair and
// its path, and nothing else may be. BRAID_CASES says how many placements, BRAID_SEED which one
// comes first.
//
//===----------------------------------------------------------------------------------------===//

#include "api/pairs/measure_pairs.h"
#include "api/pairs/measuring_rank.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/verdicts.h"
#include "api/timing/seconds_since.h"
#include "tests/pairs/link_faults.h"
#include "tests/support/number_from.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

namespace braid::test {
namespace {

using Kind = LinkFault::Kind;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSmall = 4096, kLarge = int64_t(1) << 20;
constexpr int kDevices = 8;

MeasureOptions optionsFor(int devices, std::vector<Path> paths) {
  MeasureOptions options;
  options.backend = "cpu";
  for (int i = 0; i < devices; ++i)
    options.devices.push_back(i);
  options.paths = std::move(paths);
  options.sizes = {kSmall, kLarge};
  options.timeout = std::chrono::milliseconds(2000);
  options.secondsOfPath = 60; // nothing is left out
  options.rankCommand = {"pairs_faults_test", "--measure-to"};
  return options;
}

PairReport measureWith(const FaultyLinks &links, const MeasureOptions &options) {
  setenv(kLinksVariable, links.encode().c_str(), 1);
  Result<MeasuredPairs> measured = measurePairs(options);
  unsetenv(kLinksVariable);
  if (!measured) {
    ADD_FAILURE() << measured.status().message();
    return {};
  }
  EXPECT_EQ(measured->signal, 0);
  return std::move(measured->report);
}

/// One that says nothing if nothing could be measured.
const PathReport &pathOf(const PairReport &report, int64_t source, int64_t destination, Path path) {
  static const PathReport none;
  if (report.rows.empty())
    return none;
  return on(*PairTable(report).row(static_cast<size_t>(source), static_cast<size_t>(destination)),
            path);
}

Path pathOf(const LinkFault &fault) {
  return fault.path == LinkPath::Host ? Path::Host : Path::PutEngine;
}

/// What becomes of the path that it strikes.
PathOutcome outcomeOf(const LinkFault &fault) {
  switch (fault.kind) {
  case Kind::Slow:
  case Kind::SlowTogether:
  case Kind::Bridge:
    return PathOutcome::Measured;
  case Kind::Hang:
    return PathOutcome::Hung;
  case Kind::Crash:
  case Kind::Exit:
    return PathOutcome::Crashed;
  case Kind::Flip:
  case Kind::FlipTogether:
    return PathOutcome::WrongData;
  }
  return PathOutcome::NotMeasured;
}

/// Times slower than its like. Through the host, ranks that share cores also wait for each other.
constexpr double kSlowTogether = 4;

/// The verdicts about CPU ranks say nothing about what runs together, since that depends on the
/// cores; here it is the clock's matter, and so can be told.
void expectSlowTogether(const PairReport &report, const std::vector<LinkFault> &faults,
                        const std::vector<Path> &paths) {
  for (Path path : paths) {
    std::vector<double> figures;
    for (const PairRow &row : report.rows)
      if (on(row, path).togetherGBps > 0)
        figures.push_back(on(row, path).togetherGBps);
    const double usual = medianOf(figures);
    for (const PairRow &row : report.rows) {
      const auto fault = llvm::find_if(faults, [&](const LinkFault &each) {
        return each.source == row.source && each.destination == row.destination;
      });
      const bool isSlow = fault != faults.end() && fault->kind == Kind::SlowTogether;
      if (fault != faults.end() && fault->kind == Kind::Slow)
        continue; // alone, too
      const double figure = on(row, path).togetherGBps;
      if (on(row, path).outcome == PathOutcome::Measured)
        EXPECT_EQ(figure < usual / kSlowTogether, isSlow)
            << row.source << " to " << row.destination << " by " << name(path).str() << ": "
            << figure << " of " << usual;
      else
        EXPECT_EQ(figure, 0);
    }
  }
}

bool isOf(const Verdict &verdict, const LinkFault &fault) {
  return verdict.scope == VerdictScope::Pair && verdict.source == fault.source &&
         verdict.destination == fault.destination && !verdict.bothWays;
}

bool says(const Verdict &verdict, const LinkFault &fault) {
  switch (fault.kind) {
  case Kind::Slow:
    return verdict.kind == VerdictKind::SlowPair || verdict.kind == VerdictKind::Asymmetric ||
           verdict.kind == VerdictKind::HostFallback; // the host is as fast as any link here
  case Kind::SlowTogether:
    return verdict.kind == VerdictKind::SlowTogether;
  case Kind::Bridge:
    return verdict.kind == VerdictKind::SharedBridge;
  case Kind::Hang:
    return verdict.kind == VerdictKind::Hung;
  case Kind::Crash:
  case Kind::Exit:
    return verdict.kind == VerdictKind::Crashed;
  case Kind::Flip:
    return verdict.kind == VerdictKind::WrongData && verdict.wrong &&
           verdict.wrong->offset == fault.offset && verdict.wrong->bytes == fault.bytes &&
           !verdict.together;
  case Kind::FlipTogether:
    return verdict.kind == VerdictKind::WrongData && verdict.wrong &&
           verdict.wrong->offset == fault.offset && verdict.wrong->bytes == fault.bytes &&
           verdict.together;
  }
  return false;
}

std::string str(const std::vector<LinkFault> &faults) {
  FaultyLinks links;
  links.faults = faults;
  return links.encode();
}

/// Each fault has its outcome on its path, and every other path is as it should be.
void expectOutcomes(const PairReport &report, const std::vector<LinkFault> &faults,
                    const std::vector<Path> &paths) {
  for (const PairRow &row : report.rows)
    for (Path path : paths) {
      const auto fault = llvm::find_if(faults, [&](const LinkFault &each) {
        return each.source == row.source && each.destination == row.destination &&
               pathOf(each) == path;
      });
      const PathOutcome expected =
          fault == faults.end() ? PathOutcome::Measured : outcomeOf(*fault);
      EXPECT_EQ(name(on(row, path).outcome).str(), name(expected).str())
          << row.source << " to " << row.destination << " by " << name(path).str() << ": "
          << on(row, path).reason;
      if (fault != faults.end() && fault->kind == Kind::Flip && on(row, path).wrong) {
        EXPECT_EQ(on(row, path).wrong->offset, fault->offset);
        EXPECT_EQ(on(row, path).wrong->bytes, fault->bytes);
        EXPECT_EQ(on(row, path).wrong->expected ^ on(row, path).wrong->got, 0x10);
      }
    }
}

std::string sentencesOf(const std::vector<Verdict> &verdicts) {
  std::string text;
  for (const Verdict &verdict : verdicts)
    text += verdict.sentence + '\n';
  return text;
}

/// One verdict for each fault, and none besides.
void expectVerdicts(const PairReport &report, const std::vector<LinkFault> &faults) {
  const std::vector<Verdict> verdicts = judge(report);
  for (const LinkFault &fault : faults)
    EXPECT_TRUE(
        fault.kind == Kind::SlowTogether ||
        llvm::any_of(verdicts,
                     [&](const Verdict &each) { return isOf(each, fault) && says(each, fault); }))
        << "not named: " << fault;
  for (const Verdict &verdict : verdicts)
    EXPECT_TRUE(llvm::any_of(
        faults,
        [&](const LinkFault &fault) { return isOf(verdict, fault) && says(verdict, fault); }))
        << "named though nothing is wrong: " << verdict.sentence;
}

LinkFault drawFault(Kind kind, std::mt19937_64 &random,
                    std::set<std::pair<int64_t, int64_t>> &taken) {
  auto below = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  LinkFault fault;
  fault.kind = kind;
  do {
    fault.source = below(kDevices);
    fault.destination = (fault.source + 1 + below(kDevices - 1)) % kDevices;
  } while (taken.count({fault.source, fault.destination}) ||
           taken.count({fault.destination, fault.source}));
  taken.insert({fault.source, fault.destination});
  const bool isOfPath = kind != Kind::Slow && kind != Kind::SlowTogether;
  fault.path = isOfPath ? (below(2) ? LinkPath::Put : LinkPath::Host) : LinkPath::All;
  fault.factor = (kind == Kind::Slow ? 14 : 40) + static_cast<double>(below(6));
  fault.bytes = below(2) ? kSmall : kLarge;
  fault.count = below(2);
  fault.offset = below(fault.bytes);
  return fault;
}

TEST(Faults, AreNamedEachWhereItIs) {
  const std::vector<Path> paths = {Path::PutEngine, Path::Host};
  const uint64_t first = numberFrom("BRAID_SEED", 1), cases = numberFrom("BRAID_CASES", 1);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Kind> kinds = {Kind::Slow, Kind::SlowTogether, Kind::Flip, Kind::Crash,
                               random() % 2 ? Kind::Exit : Kind::Flip};
    if (random() % 4 == 0)
      kinds.push_back(Kind::Hang);
    std::set<std::pair<int64_t, int64_t>> taken;
    FaultyLinks links;
    for (Kind kind : kinds)
      links.faults.push_back(drawFault(kind, random, taken));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + str(links.faults));
    const Clock::time_point start = Clock::now();
    const PairReport report = measureWith(links, optionsFor(kDevices, paths));
    expectOutcomes(report, links.faults, paths);
    expectVerdicts(report, links.faults);
    expectSlowTogether(report, links.faults, paths);
    EXPECT_EQ(report.together, PathOutcome::Measured) << report.togetherReason;
    if (cases > 1)
      std::cerr << "seed " << seed << ": " << secondsSince(start) << " s\n";
  }
}

/// Alone the pair is right, and so has all its figures.
TEST(Faults, WrongDataOnlyWhileAllRunSaySo) {
  const std::vector<Path> paths = {Path::PutEngine, Path::GetEngine};
  FaultyLinks links;
  links.faults = {{Kind::FlipTogether, 2, 0, LinkPath::Put, 1, kLarge, 0, 777}};
  const PairReport report = measureWith(links, optionsFor(3, paths));
  expectOutcomes(report, links.faults, paths);
  expectVerdicts(report, links.faults);
  EXPECT_EQ(pathOf(report, 2, 0, Path::PutEngine).points.size(), 2u);
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u) << sentencesOf(verdicts);
  EXPECT_NE(
      verdicts.front().sentence.find("transfers from device 2 to device 0 bring wrong data by "
                                     "put-engine while all pairs run, first at offset 777"),
      std::string::npos)
      << verdicts.front().sentence;
  EXPECT_EQ(braid::outcomeOf(report), StatusCode::WrongResult);
}

/// What is found out of all that run has to stand out from what ranks that share cores do there.
constexpr double kMuchSlower = 80;

/// Both ways of each of these, put, on bridges of these numbers.
FaultyLinks bridgesOf(const std::vector<std::array<int64_t, 3>> &links) {
  FaultyLinks faulty;
  for (const auto &[one, other, bridge] : links)
    for (auto [source, destination] : {std::pair(one, other), {other, one}})
      faulty.faults.push_back(
          {Kind::Bridge, source, destination, LinkPath::Put, kMuchSlower, kLarge, bridge, 0});
  return faulty;
}

/// On a loaded machine, processes that should be on a bridge at once may run one after the other,
/// and then there is nothing to see; so the machine gets three chances.
PairReport measureBridges(const FaultyLinks &links, const MeasureOptions &options) {
  PairReport report;
  for (int chance = 0; chance < 3 && judge(report).empty(); ++chance)
    report = measureWith(links, options);
  return report;
}

TEST(Faults, TwoLinksThatShareABridgeAreNamedTogether) {
  const std::vector<Path> paths = {Path::PutEngine, Path::GetEngine};
  const PairReport report = measureBridges(bridgesOf({{0, 1, 0}, {2, 3, 0}}), optionsFor(4, paths));
  expectOutcomes(report, {}, paths);
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u) << sentencesOf(verdicts);
  EXPECT_EQ(verdicts.front().kind, VerdictKind::SharedBridge);
  EXPECT_EQ(verdicts.front().sentence.find("transfers between devices 0 and 1 and those between "
                                           "devices 2 and 3 share a bridge: when both run, "),
            0u)
      << verdicts.front().sentence;
  EXPECT_EQ(verdicts.front().paths, std::vector<Path>{Path::PutEngine});
}

/// A third link is slow while all run, too, but beside neither of them.
TEST(Faults, ABridgeIsOfThoseThatShareIt) {
  FaultyLinks links = bridgesOf({{0, 1, 0}, {2, 3, 0}});
  for (auto [source, destination] : {std::pair(4, 5), {5, 4}})
    links.faults.push_back(
        {Kind::SlowTogether, source, destination, LinkPath::Put, kMuchSlower, kLarge, 0, 0});
  const PairReport report = measureBridges(links, optionsFor(6, {Path::PutEngine}));
  EXPECT_EQ(report.couples.size(), 3u);
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u) << sentencesOf(verdicts);
  EXPECT_EQ(verdicts.front().kind, VerdictKind::SharedBridge);
  EXPECT_EQ(verdicts.front().source, 0);
  ASSERT_TRUE(verdicts.front().other);
  EXPECT_EQ(verdicts.front().other->source, 2);
}

/// Each is slow while all run, but not because of the other.
TEST(Faults, TwoLinksThatAreSlowWhileAllRunShareNothing) {
  FaultyLinks links;
  for (auto [source, destination] : {std::pair(0, 1), {2, 3}})
    links.faults.push_back(
        {Kind::SlowTogether, source, destination, LinkPath::Put, kMuchSlower, kLarge, 0, 0});
  const PairReport report = measureWith(links, optionsFor(4, {Path::PutEngine}));
  EXPECT_EQ(report.couples.size(), 1u);
  EXPECT_TRUE(judge(report).empty()) << sentencesOf(judge(report));
}

void expectHealthy(const FaultyLinks &links) {
  const std::vector<Path> paths = {Path::PutEngine, Path::GetEngine, Path::Host};
  const PairReport report = measureWith(links, optionsFor(3, paths));
  expectOutcomes(report, {}, paths);
  expectVerdicts(report, {});
  for (const PairRow &row : report.rows)
    for (Path path : paths) {
      ASSERT_EQ(on(row, path).points.size(), 2u);
      const PathPoint &small = on(row, path).points[0], &large = on(row, path).points[1];
      // A copy takes 200 us and 1 us a KiB; what else happens only adds to that.
      EXPECT_GT(small.latencyUs, 200);
      EXPECT_LT(small.latencyUs, 4000);
      EXPECT_LT(large.GBps, 0.85);
      EXPECT_GT(large.GBps, 0.1);
      EXPECT_GT(on(row, path).togetherGBps, 0.05);
    }
}

TEST(Faults, NoneAreFoundWhereThereAreNone) { expectHealthy({}); }

TEST(Faults, NoneAreFoundInGraphs) {
  FaultyLinks links;
  links.hasGraphs = true;
  expectHealthy(links);
}

/// What was measured before stays, what comes behind is measured, and others have nothing of it.
void expectCost(Kind kind, double seconds) {
  const std::vector<Path> paths = {Path::PutEngine, Path::GetEngine, Path::Host};
  FaultyLinks links;
  links.faults = {{kind, 1, 0, LinkPath::Get, 1, kLarge, 0, 0}};
  Clock::time_point start = Clock::now();
  const PairReport healthy = measureWith({}, optionsFor(2, paths));
  const double usual = secondsSince(start);
  start = Clock::now();
  const PairReport report = measureWith(links, optionsFor(2, paths));
  EXPECT_LT(secondsSince(start), usual + seconds + 3);
  EXPECT_GE(secondsSince(start), seconds);
  const PathReport &struck = pathOf(report, 1, 0, Path::GetEngine);
  EXPECT_EQ(struck.outcome, outcomeOf(links.faults.front())) << struck.reason;
  ASSERT_EQ(struck.points.size(), 1u);
  EXPECT_EQ(struck.points.front().bytes, kSmall);
  EXPECT_NE(struck.reason.find("1 MiB"), std::string::npos) << struck.reason;
  for (const PairRow &row : report.rows)
    for (Path path : paths)
      if (&on(row, path) != &struck) {
        EXPECT_EQ(on(row, path).outcome, PathOutcome::Measured) << on(row, path).reason;
        EXPECT_EQ(on(row, path).points.size(), 2u);
      }
  EXPECT_EQ(braid::outcomeOf(report),
            kind == Kind::Hang ? StatusCode::TimedOut : StatusCode::PeerFailed);
}

TEST(Faults, ACrashCostsAJob) {
  expectCost(Kind::Crash, 0);
  expectCost(Kind::Exit, 0);
}

TEST(Faults, AHangCostsOneTimeLimit) { expectCost(Kind::Hang, 2); }

TEST(Faults, ACrashSaysWhoAndHow) {
  FaultyLinks links;
  links.faults = {{Kind::Crash, 1, 0, LinkPath::Put, 1, kSmall, 0, 0}};
  const PairReport report = measureWith(links, optionsFor(2, {Path::PutEngine}));
  EXPECT_EQ(pathOf(report, 1, 0, Path::PutEngine).reason,
            "the process of device 1 was killed by signal 11 (Segmentation fault), at 4 KiB");
  EXPECT_EQ(pathOf(report, 0, 1, Path::PutEngine).points.size(), 2u);
}

/// Processes whose environment has the mark, this one aside.
std::vector<std::string> processesWith(const std::string &mark) {
  std::vector<std::string> found;
  for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find(mark) != std::string::npos)
      found.push_back(entry.path().filename().string());
  }
  return found;
}

TEST(Faults, LeaveNothing) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("braid-pairs-" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
  for (const char *variable : {"TMPDIR", "XDG_RUNTIME_DIR"})
    setenv(variable, folder.c_str(), 1);
  auto filesBelow = [](const fs::path &path) {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  };
  const auto before = filesBelow("/proc/self/fd");
  FaultyLinks links;
  links.faults = {{Kind::Hang, 0, 1, LinkPath::Put, 1, kLarge, 0, 0},
                  {Kind::Crash, 1, 0, LinkPath::Get, 1, kSmall, 0, 0}};
  MeasureOptions options = optionsFor(2, {Path::PutEngine, Path::GetEngine});
  const std::string mark = links.encode();
  const PairReport report = measureWith(links, options);
  EXPECT_EQ(pathOf(report, 0, 1, Path::PutEngine).outcome, PathOutcome::Hung);
  EXPECT_EQ(pathOf(report, 1, 0, Path::GetEngine).outcome, PathOutcome::Crashed);
  EXPECT_TRUE(processesWith(std::string(kLinksVariable) + "=" + mark).empty());
  EXPECT_EQ(filesBelow(folder), 0);
  EXPECT_EQ(filesBelow("/proc/self/fd"), before);
  fs::remove_all(folder);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  if (argc == 3 && std::strcmp(argv[1], "--measure-to") == 0)
    return static_cast<int>(
        braid::measureAsRank(braid::test::faultyBackends(), std::atoi(argv[2])).code());
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
