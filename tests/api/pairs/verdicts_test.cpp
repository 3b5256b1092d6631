//===- tests/api/pairs/verdicts_test.cpp - every fault is named, and nobody else --------------===//

#include "api/pairs/verdicts.h"

#include "api/pairs/pair_figures.h"
#include "tests/api/pairs/random_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace braid::pairs_test {
namespace {

/// Whom a verdict names, and of what.
std::string keyOf(const Verdict &verdict) {
  const std::string kind = name(verdict.kind).str();
  switch (verdict.scope) {
  case VerdictScope::Pair:
    return fmt::format("{} {}{}{}", kind, verdict.source, verdict.bothWays ? "=" : ">",
                       verdict.destination);
  case VerdictScope::Device:
    return fmt::format("{} {} {}", kind, verdict.device, name(verdict.flow).str());
  case VerdictScope::Class:
    return fmt::format("{} class", kind);
  case VerdictScope::All:
    break;
  }
  return kind + " all";
}

std::set<std::string> keysOf(const std::vector<Verdict> &verdicts) {
  std::set<std::string> keys;
  for (const Verdict &verdict : verdicts) {
    EXPECT_TRUE(keys.insert(keyOf(verdict)).second) << "named twice: " << keyOf(verdict);
    EXPECT_FALSE(verdict.sentence.empty());
  }
  return keys;
}

std::string described(const MachineShape &shape, const PairReport &report) {
  std::string text = fmt::format(
      "{} devices, islands of {}, class {} and {}, noise {}, topology {}, together {}\n",
      shape.devices, shape.island, static_cast<int>(shape.within), static_cast<int>(shape.between),
      shape.noise, shape.hasTopology, shape.hasTogether);
  for (const Verdict &verdict : judge(report))
    text += "  " + keyOf(verdict) + ": " + verdict.sentence + " (" + verdict.cause + ")\n";
  return text;
}

/// Breaks pairs that share no device with others that are broken.
class Breaker {
public:
  Breaker(MachineShape shape, PairReport &report, std::mt19937 &random)
      : shape_(shape), report_(report), random_(random) {
    for (size_t device = 0; device < shape.devices; ++device)
      whole_.push_back(static_cast<int64_t>(device));
    std::shuffle(whole_.begin(), whole_.end(), random_);
  }
  bool canTakePair() const { return whole_.size() >= 2; }
  int64_t takeDevice() {
    const int64_t device = whole_.back();
    whole_.pop_back();
    return device;
  }
  /// Of a pair, the lower device first.
  std::pair<int64_t, int64_t> takePair() {
    const int64_t a = takeDevice(), b = takeDevice();
    return {std::min(a, b), std::max(a, b)};
  }
  PairRow &row(int64_t source, int64_t destination) { return rowOf(report_, source, destination); }
  double factor() { return std::uniform_real_distribution<double>(2, 4)(random_); }
  bool flips() { return random_() % 2 == 0; }

  /// Changes one direction of a pair or both, and expects it to be named.
  void expectPair(const std::string &oneWay, const std::string &bothWays,
                  const std::function<void(PairRow &)> &change, bool isBoth) {
    auto [a, b] = takePair();
    if (isBoth) {
      change(row(a, b));
      change(row(b, a));
      expected.insert(fmt::format("{} {}={}", bothWays, a, b));
      return;
    }
    if (flips())
      std::swap(a, b);
    change(row(a, b));
    expected.insert(fmt::format("{} {}>{}", oneWay, a, b));
  }
  void expectDevice(const std::string &kind, Flow flow,
                    const std::function<void(PairRow &)> &change) {
    const int64_t device = takeDevice();
    for (PairRow &each : report_.rows)
      if ((each.source == device && flow != Flow::Receiving) ||
          (each.destination == device && flow != Flow::Sending))
        change(each);
    expected.insert(fmt::format("{} {} {}", kind, device, name(flow).str()));
  }

  /// As if one device did not run while all others did.
  void shareAmongFewer() {
    const auto others = static_cast<double>(shape_.devices - 1);
    for (PairRow &row : report_.rows)
      for (PathReport &path : row.paths)
        path.togetherGBps *= others / (others - 1);
  }

  std::set<std::string> expected;

private:
  MachineShape shape_;
  PairReport &report_;
  std::mt19937 &random_;
  std::vector<int64_t> whole_;
};

void breakOutcome(Breaker &breaker, const std::string &kind, PathOutcome outcome) {
  breaker.expectPair(
      kind, kind, [&](PairRow &row) { fail(row, outcome); }, breaker.flips());
}

/// One kind of fault, put somewhere.
struct Fault {
  const char *name;
  /// Whether it can be told from the shape of the machine.
  std::function<bool(const MachineShape &)> isSeen;
  std::function<void(Breaker &)> apply;
};

bool always(const MachineShape &) { return true; }
bool hasLike(const MachineShape &shape) { return shape.devices > 2; }

const Fault kPairFaults[] = {
    {"hung", always, [](Breaker &breaker) { breakOutcome(breaker, "hung", PathOutcome::Hung); }},
    {"crashed", always,
     [](Breaker &breaker) { breakOutcome(breaker, "crashed", PathOutcome::Crashed); }},
    {"wrong data", always,
     [](Breaker &breaker) { breakOutcome(breaker, "wrong-data", PathOutcome::WrongData); }},
    {"slow both ways", hasLike,
     [](Breaker &breaker) {
       const double factor = breaker.factor();
       breaker.expectPair(
           "", "slow-pair", [&](PairRow &row) { makeSlow(row, factor); }, true);
     }},
    {"slow one way", always,
     [](Breaker &breaker) {
       const double factor = breaker.factor();
       breaker.expectPair(
           "asymmetric", "", [&](PairRow &row) { makeSlow(row, factor); }, false);
     }},
    {"slow by one path", hasLike,
     [](Breaker &breaker) {
       breaker.expectPair(
           "", "slow-pair", [&](PairRow &row) { on(row, Path::GetKernel).points.back().GBps /= 2; },
           true);
     }},
    {"slow when others run",
     [](const MachineShape &shape) {
       return shape.hasTogether &&
              (shape.within == LinkClass::NvLink || (!shape.hasTopology && shape.devices > 2)) &&
              (shape.hasTopology || shape.devices > 2);
     },
     [](Breaker &breaker) {
       breaker.expectPair(
           "slow-together", "slow-together",
           [](PairRow &row) {
             for (Path path : kAllPaths)
               on(row, path).togetherGBps /= 3;
           },
           breaker.flips());
     }},
    {"late", hasLike,
     [](Breaker &breaker) {
       breaker.expectPair(
           "latency", "latency", [](PairRow &row) { makeLate(row, 3); }, breaker.flips());
     }},
    {"no peer access", hasLike,
     [](Breaker &breaker) { breaker.expectPair("", "host-fallback", takePeerAccess, true); }},
    {"peer memory by the host", hasLike,
     [](Breaker &breaker) {
       breaker.expectPair(
           "", "host-fallback",
           [](PairRow &row) {
             for (Path path : kPeerPaths)
               on(row, path).points.back().GBps = 2;
           },
           true);
     }},
};

const Fault kDeviceFaults[] = {
    {"slow device", hasLike,
     [](Breaker &breaker) {
       const double factor = breaker.factor();
       breaker.expectDevice("slow-device", Flow::Both,
                            [&](PairRow &row) { makeSlow(row, factor); });
     }},
    {"slow sender", hasLike,
     [](Breaker &breaker) {
       breaker.expectDevice("slow-device", Flow::Sending, [](PairRow &row) { makeSlow(row, 3); });
     }},
    {"slow receiver", hasLike,
     [](Breaker &breaker) {
       breaker.expectDevice("slow-device", Flow::Receiving, [](PairRow &row) { makeSlow(row, 3); });
     }},
    {"dead device", hasLike,
     [](Breaker &breaker) {
       breaker.expectDevice("hung", Flow::Both, [](PairRow &row) { fail(row, PathOutcome::Hung); });
       breaker.shareAmongFewer();
     }},
    {"late device", hasLike,
     [](Breaker &breaker) {
       breaker.expectDevice("latency", Flow::Both, [](PairRow &row) { makeLate(row, 3); });
     }},
    {"narrow slot",
     [](const MachineShape &shape) { return shape.hasTopology && shape.devices > 4; },
     [](Breaker &breaker) {
       breaker.expectDevice("narrow-link", Flow::Both, [](PairRow &row) {
         row.link.nominalGBps /= 2;
         makeSlow(row, 2);
       });
     }},
};

MachineShape oneClass(std::mt19937 &random) {
  MachineShape shape = randomShape(random);
  shape.island = shape.devices;
  return shape;
}

TEST(Verdicts, HealthyMachinesHaveNone) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const MachineShape shape = randomShape(random);
    const PairReport report = healthyReport(shape, random);
    ASSERT_EQ(keysOf(judge(report)), std::set<std::string>()) << described(shape, report);
  }
}

TEST(Verdicts, NormalNoiseIsNone) {
  // As measured, with tails: a figure of 24,000 is four times the usual distance away.
  std::mt19937 random(2);
  std::normal_distribution<double> noise(1, 0.05);
  for (size_t devices : {2, 3, 5, 8, 16, 64}) {
    MachineShape shape{.devices = devices, .island = devices, .noise = 0, .hasTogether = false};
    PairReport report = healthyReport(shape, random);
    for (PairRow &row : report.rows)
      for (PathReport &path : row.paths)
        for (PathPoint &point : path.points) {
          point.GBps *= noise(random);
          point.latencyUs *= noise(random);
        }
    ASSERT_EQ(keysOf(judge(report)), std::set<std::string>()) << described(shape, report);
  }
}

TEST(Verdicts, EachFaultOfAPairIsNamedExactly) {
  std::mt19937 random(3);
  for (const Fault &fault : kPairFaults)
    for (int i = 0; i < 150; ++i) {
      const MachineShape shape = oneClass(random);
      if (!fault.isSeen(shape))
        continue;
      PairReport report = healthyReport(shape, random);
      Breaker breaker(shape, report, random);
      fault.apply(breaker);
      ASSERT_EQ(keysOf(judge(report)), breaker.expected)
          << fault.name << " on " << described(shape, report);
    }
}

TEST(Verdicts, EachFaultOfADeviceIsNamedOnce) {
  std::mt19937 random(4);
  for (const Fault &fault : kDeviceFaults)
    for (int i = 0; i < 150; ++i) {
      const MachineShape shape = oneClass(random);
      if (!fault.isSeen(shape))
        continue;
      PairReport report = healthyReport(shape, random);
      Breaker breaker(shape, report, random);
      fault.apply(breaker);
      ASSERT_EQ(keysOf(judge(report)), breaker.expected)
          << fault.name << " on " << described(shape, report);
    }
}

TEST(Verdicts, SeveralFaultsAreNamedExactly) {
  std::mt19937 random(5);
  for (int i = 0; i < 600; ++i) {
    MachineShape shape = oneClass(random);
    if (shape.devices < 6)
      continue;
    PairReport report = healthyReport(shape, random);
    Breaker breaker(shape, report, random);
    for (size_t n = 1 + random() % (shape.devices / 6 + 1); n > 0 && breaker.canTakePair(); --n)
      if (const Fault &fault = kPairFaults[random() % std::size(kPairFaults)]; fault.isSeen(shape))
        fault.apply(breaker);
    ASSERT_EQ(keysOf(judge(report)), breaker.expected) << described(shape, report);
  }
}

TEST(Verdicts, TwoDevicesAreHeldToTheirNominalRate) {
  std::mt19937 random(6);
  for (LinkClass kind : {LinkClass::NvLink, LinkClass::PcieSwitch, LinkClass::HostBridge,
                         LinkClass::SameNuma, LinkClass::CrossNuma}) {
    PairReport report = healthyReport({.devices = 2, .within = kind, .island = 2}, random);
    EXPECT_EQ(keysOf(judge(report)), std::set<std::string>());
    for (PairRow &row : report.rows)
      makeSlow(row, 2.5);
    EXPECT_EQ(keysOf(judge(report)), std::set<std::string>{"below-nominal 0=1"});
    // Of small transfers, it says nothing.
    for (PairRow &row : report.rows)
      for (PathReport &path : row.paths)
        path.points.resize(6);
    EXPECT_EQ(keysOf(judge(report)), std::set<std::string>());
  }
}

TEST(Verdicts, AllLinksOfAClassBelowTheirRateAreOneVerdict) {
  std::mt19937 random(7);
  PairReport report = healthyReport({.devices = 8, .island = 4}, random);
  for (PairRow &row : report.rows)
    if (row.link.kind == LinkClass::NvLink)
      makeSlow(row, 2);
  EXPECT_EQ(keysOf(judge(report)), std::set<std::string>{"below-nominal class"});
}

TEST(Verdicts, NoPeerAccessAtAllIsOneVerdict) {
  std::mt19937 random(8);
  PairReport report =
      healthyReport({.devices = 4, .within = LinkClass::HostBridge, .island = 4}, random);
  for (PairRow &row : report.rows)
    takePeerAccess(row);
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(keysOf(verdicts), std::set<std::string>{"host-fallback all"});
  EXPECT_EQ(verdicts.front().cause, "the chipset does not support it");
}

TEST(Verdicts, SharedLinksAreRemarkedAndNoFaults) {
  std::mt19937 random(9);
  PairReport report =
      healthyReport({.devices = 4, .within = LinkClass::PcieSwitch, .island = 4}, random);
  EXPECT_TRUE(judge(report).empty());
  ASSERT_EQ(remarks(report).size(), 1u);
  EXPECT_NE(remarks(report).front().find("12 ordered pairs over pcie-switch links share them"),
            std::string::npos)
      << remarks(report).front();
}

TEST(Verdicts, WrongDataSaysWhere) {
  std::mt19937 random(10);
  PairReport report = healthyReport({.devices = 4, .island = 4}, random);
  PathReport &path = on(rowOf(report, 2, 1), Path::GetEngine);
  path.outcome = PathOutcome::WrongData;
  path.wrong = WrongData{1 << 20, 3, 4096, 0x5a, 0x5b};
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().sentence,
            "transfers from device 2 to device 1 bring wrong data by get-engine, first at offset "
            "4096 of 1 MiB in round 3: expected 0x5a, got 0x5b");
  EXPECT_EQ(verdicts.front().cause,
            "one bit of the byte differs, as a failing memory or link leaves it");
}

TEST(Verdicts, WrongDataOnlyWhileAllRunAreTheirOwn) {
  std::mt19937 random(10);
  PairReport report = healthyReport({.devices = 4, .island = 4}, random);
  for (auto [path, together] : {std::pair(Path::GetEngine, false), {Path::PutEngine, true}}) {
    PathReport &wrong = on(rowOf(report, 2, 1), path);
    wrong.outcome = PathOutcome::WrongData;
    wrong.wrong = WrongData{1 << 20, 3, 4096, 0x5a, 0x5b, together};
  }
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].sentence,
            "transfers from device 2 to device 1 bring wrong data by get-engine, first at offset "
            "4096 of 1 MiB in round 3: expected 0x5a, got 0x5b");
  EXPECT_EQ(verdicts[1].sentence,
            "transfers from device 2 to device 1 bring wrong data by put-engine while all pairs "
            "run, first at offset 4096 of 1 MiB in round 3: expected 0x5a, got 0x5b");
  EXPECT_TRUE(verdicts[1].together);
}

TEST(Verdicts, AllAtOnceMayFailWhereEachWorks) {
  std::mt19937 random(12);
  PairReport report = healthyReport({.devices = 4, .island = 4}, random);
  report.together = PathOutcome::Measured;
  EXPECT_TRUE(judge(report).empty());
  report.together = PathOutcome::Hung;
  report.togetherReason = "rank 2 did nothing for 20 s";
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().sentence, "all transfers between devices hang while all pairs run");
  EXPECT_EQ(verdicts.front().cause, "rank 2 did nothing for 20 s");
}

/// Devices 0 and 1 as well as 2 and 3 get a third of their share while all pairs run.
PairReport withTwoSlowTogether() {
  std::mt19937 random(14);
  PairReport report = healthyReport({.devices = 8, .island = 8, .hasTogether = true}, random);
  for (auto [source, destination] : {std::pair(0, 1), {1, 0}, {2, 3}, {3, 2}})
    on(rowOf(report, source, destination), Path::PutEngine).togetherGBps /= 3;
  return report;
}

LinkCouple coupleOf(double share) {
  return {Path::PutEngine, 1 << 20, {0, 1, true, 300, 300 * share}, {2, 3, true, 310, 310 * share}};
}

TEST(Verdicts, ABridgeIsNamedOnceWithBothOfItsLinks) {
  PairReport report = withTwoSlowTogether();
  EXPECT_EQ(judge(report).size(), 2u);
  report.couples = {coupleOf(0.5)};
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().sentence,
            "transfers between devices 0 and 1 and those between devices 2 and 3 share a bridge: "
            "when both run, and no others, they run at 150 GB/s by put-engine, alone at 300");
  EXPECT_TRUE(isAbout(verdicts.front(), rowOf(report, 1, 0)));
  EXPECT_TRUE(isAbout(verdicts.front(), rowOf(report, 3, 2)));
  EXPECT_FALSE(isAbout(verdicts.front(), rowOf(report, 0, 2)));
}

TEST(Verdicts, LinksThatAreRightInTwosShareNoBridge) {
  PairReport report = withTwoSlowTogether();
  report.couples = {coupleOf(0.95)};
  const std::vector<Verdict> verdicts = judge(report);
  EXPECT_EQ(verdicts.size(), 2u);
  for (const Verdict &verdict : verdicts)
    EXPECT_EQ(verdict.kind, VerdictKind::SlowTogether) << verdict.sentence;
  report.couples.front().one.togetherGBps /= 2; // one alone is no bridge
  EXPECT_EQ(judge(report).size(), 2u);
  report.couples.front().one.togetherGBps = 0; // not measured
  report.couples.front().other.togetherGBps /= 2;
  EXPECT_EQ(judge(report).size(), 2u);
}

TEST(Verdicts, ABridgeOfSeveralPathsIsNamedOnce) {
  PairReport report = withTwoSlowTogether();
  report.couples = {coupleOf(0.5), coupleOf(0.5)};
  report.couples.back().path = Path::GetEngine;
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts.front().paths, (std::vector<Path>{Path::PutEngine, Path::GetEngine}));
}

TEST(Verdicts, WhatIsSlowTogetherIsTriedInTwos) {
  const PairReport report = withTwoSlowTogether();
  const std::vector<CoupledLink> links = linksSlowTogether(report, Path::PutEngine);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].source, 0);
  EXPECT_EQ(links[1].source, 2);
  EXPECT_TRUE(links[0].bothWays && links[1].bothWays);
  EXPECT_TRUE(linksSlowTogether(report, Path::GetEngine).empty());
  std::mt19937 random(15);
  EXPECT_TRUE(
      linksSlowTogether(healthyReport({.devices = 8, .hasTogether = true}, random), Path::PutEngine)
          .empty());
}

TEST(Verdicts, TogetherIsComparedAtItsSize) {
  // One pair had no time for large sizes, so all of them ran at small ones together.
  std::mt19937 random(13);
  PairReport report = healthyReport({.devices = 4, .island = 4}, random);
  for (PairRow &row : report.rows)
    for (PathReport &path : row.paths)
      path.togetherGBps = path.points[4].GBps / 3;
  for (PathReport &path : rowOf(report, 2, 3).paths)
    path.points.resize(5);
  EXPECT_EQ(keysOf(judge(report)), std::set<std::string>());
}

TEST(Verdicts, TheHostMayBeNearerToSomeDevices) {
  std::mt19937 random(14);
  for (size_t devices : {2, 8}) {
    PairReport report = healthyReport({.devices = devices, .island = devices}, random);
    for (PairRow &row : report.rows)
      if (row.source >= static_cast<int64_t>(devices) - 2)
        for (PathPoint &point : on(row, Path::Host).points)
          point.GBps /= 2;
    for (size_t device = 0; device < devices; ++device)
      report.devices[device].numaNode = device + 2 >= devices;
    EXPECT_EQ(keysOf(judge(report)), std::set<std::string>());
  }
}

TEST(Verdicts, CpuRanksMayScatter) {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    MachineShape shape = oneClass(random);
    shape.hasTopology = false;
    shape.noise = 0.3;
    PairReport report = healthyReport(shape, random);
    report.backend = "cpu";
    // Whatever else runs there, some are slow by chance.
    for (PairRow &row : report.rows)
      for (PathReport &path : row.paths) {
        path.togetherGBps /= static_cast<double>(1 + random() % 50);
        if (random() % 8 == 0)
          path.points.back().GBps /= 3;
      }
    ASSERT_EQ(keysOf(judge(report)), std::set<std::string>()) << described(shape, report);
  }
}

TEST(Verdicts, CpuLinksThatAreSlowedDownAreNamed) {
  std::mt19937 random(15);
  for (int i = 0; i < 100; ++i) {
    MachineShape shape{.devices = 8, .island = 8, .noise = 0.3, .hasTopology = false};
    PairReport report = healthyReport(shape, random);
    report.backend = "cpu";
    Breaker breaker(shape, report, random);
    breaker.expectPair(
        "asymmetric", "slow-pair", [](PairRow &row) { makeSlow(row, 20); }, breaker.flips());
    breaker.expectPair(
        "hung", "hung", [](PairRow &row) { fail(row, PathOutcome::Hung); }, breaker.flips());
    ASSERT_EQ(keysOf(judge(report)), breaker.expected) << described(shape, report);
  }
}

/// Where NCCL cannot start on any pair, links are judged by the copies.
TEST(Verdicts, AFailureOfMessagesHidesNoSlowLink) {
  std::mt19937 random(16);
  PairReport report = healthyReport({.devices = 8, .island = 8}, random);
  for (PairRow &row : report.rows)
    on(row, Path::Messages).outcome = PathOutcome::Crashed;
  for (PathReport &path : rowOf(report, 5, 1).paths)
    for (PathPoint &point : path.points)
      point.GBps /= 2;
  const std::vector<Verdict> verdicts = judge(report);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].kind, VerdictKind::Crashed);
  EXPECT_EQ(verdicts[1].kind, VerdictKind::Asymmetric);
}

/// There may be no time for larger ones.
TEST(Verdicts, SmallTransfersAreNoMeasureOfBandwidth) {
  std::mt19937 random(17);
  PairReport report = healthyReport({.devices = 8, .island = 8, .hasTopology = false}, random);
  for (PairRow &row : report.rows)
    for (PathReport &path : row.paths) {
      path.points.resize(1);
      path.points.front().latencyUs = 0;
      path.points.front().GBps /= static_cast<double>(1 + random() % 100);
    }
  EXPECT_EQ(keysOf(judge(report)), std::set<std::string>());
  report.backend = "cpu";
  EXPECT_EQ(keysOf(judge(report)), std::set<std::string>());
}

/// One for which there was no time for what others had time for.
TEST(Verdicts, ALinkTooSlowForLargeTransfersIsNamed) {
  std::mt19937 random(18);
  for (const char *backend : {"cuda", "cpu"}) {
    PairReport report = healthyReport({.devices = 8, .island = 8, .hasTopology = false}, random);
    report.backend = backend;
    for (PathReport &path : rowOf(report, 5, 1).paths) {
      path.points.resize(1);
      path.points.front().GBps /= 1000;
    }
    const std::vector<Verdict> verdicts = judge(report);
    ASSERT_EQ(verdicts.size(), 1u) << backend;
    EXPECT_EQ(keyOf(verdicts[0]), "asymmetric 5>1");
  }
}

TEST(Verdicts, OfNothingThereAreNone) {
  EXPECT_TRUE(judge({}).empty());
  PairReport report;
  report.devices.resize(2);
  report.rows = {{0, 1, {}, {}}, {1, 0, {}, {}}, {7, 0, {}, {}}};
  EXPECT_TRUE(judge(report).empty());
}

} // namespace
} // namespace braid::pairs_test
