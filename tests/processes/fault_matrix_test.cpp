//===- tests/processes/fault_matrix_test.cpp - every kind of fault at every site --------------===//
//
// One of three ranks runs a pipeline and fails at one site: at a command of its Plan, before or
// within a message, or at a step of its host thread. Either the other ranks end in time and report
// the right cause, or the fault came after the rank's work was done and their result is exact.
//
//   fault_matrix_test           rank 1, one schedule and protocol
//   fault_matrix_test --all     every rank, schedule and protocol
//
//===----------------------------------------------------------------------------------------===//

#include "tests/processes/fault_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace braid::test {
namespace {

constexpr uint32_t kFaultyRun = 2;
/// All ranks must end within kBoundMs after the timeout on an idle machine; a loaded machine is
/// allowed kForLoadMs more.
constexpr int64_t kBoundMs = 2000, kForLoadMs = 10000;
constexpr size_t kAtOnce = 8;

/// The required outcome of a fault.
enum class Expected { Exact, PeerFailed, TimedOut, AnyFailure, ExactOrPeerFailed };
const char *name(Expected expected) {
  constexpr const char *names[] = {"an exact result", "a failed peer", "a timeout", "a failure",
                                   "an exact result or a failed peer"};
  return names[static_cast<size_t>(expected)];
}

/// The rank with the fault, and its messages in a run without faults.
struct Victim {
  int64_t rank = 1;
  FaultyProgram program = {};
  std::string sent = {}, received = {}; ///< kinds of messages
  const Plan &plan() const { return program.plans[static_cast<size_t>(rank)]; }
};

/// Returns true if the fault strikes after the rank has committed, so that the other ranks no
/// longer need it.
bool isWorkDone(const Fault &fault) {
  return fault.site == Site::Committed || fault.site == Site::Teardown || fault.site == Site::Left;
}

/// Returns true if the victim sends another message to the host after the fault. Parts (kPart) use
/// shared memory instead: if only parts follow, the ranks may be done before the host notices that
/// the connection was cut.
bool asksAgain(const Victim &victim, const Fault &fault) {
  return victim.sent.find_first_not_of(kPart, fault.index) != std::string::npos;
}

Expected expectedOf(const Victim &victim, const Fault &fault) {
  switch (fault.action) {
  case Action::DelayBelow:
  case Action::Short:
    return Expected::Exact;
  case Action::Cut:
    return asksAgain(victim, fault) ? Expected::PeerFailed : Expected::ExactOrPeerFailed;
  case Action::Kill:
  case Action::Exit:
    return isWorkDone(fault) ? Expected::Exact : Expected::PeerFailed;
  case Action::Throw:
    if (isWorkDone(fault))
      return Expected::Exact;
    return fault.site == Site::Run ? Expected::PeerFailed : Expected::AnyFailure;
  case Action::Stop:
  case Action::DelayAbove:
  case Action::Drop:
    return isWorkDone(fault) ? Expected::Exact : Expected::TimedOut;
  case Action::Nothing:
    break;
  }
  return Expected::Exact;
}

bool isAsExpected(Expected expected, int code) {
  const int peerFailed = static_cast<int>(StatusCode::PeerFailed);
  const int timedOut = static_cast<int>(StatusCode::TimedOut);
  switch (expected) {
  case Expected::Exact:
    return code == 0;
  case Expected::PeerFailed:
    return code == peerFailed;
  case Expected::TimedOut:
    return code == timedOut;
  case Expected::AnyFailure:
    return code == peerFailed || code == timedOut;
  case Expected::ExactOrPeerFailed:
    return code == 0 || code == peerFailed;
  }
  return false;
}

// -- The matrix. --

bool runsAll = false;

std::vector<Fault> everySite(const Victim &victim) {
  std::vector<Fault> sites;
  auto add = [&](Site site, size_t index = 0, uint32_t run = 0) {
    sites.push_back(
        {.rank = victim.rank, .site = site, .index = static_cast<uint32_t>(index), .run = run});
  };
  for (Site site :
       {Site::Join, Site::Joined, Site::Commit, Site::Committed, Site::Teardown, Site::Left})
    add(site);
  const size_t commands = victim.plan().commands.size();
  for (size_t command : {size_t(0), commands / 2, commands - 1})
    add(Site::Issue, command, kFaultyRun);
  add(Site::Issue, commands - 1, 3); // the last command before it synchronizes
  for (size_t command = 0; command < commands; ++command)
    add(Site::Run, command, kFaultyRun);
  for (size_t message = 0; message < victim.sent.size(); ++message) {
    add(Site::Send, message);
    if (victim.sent[message] == kPart)
      add(Site::SendHalf, message);
  }
  for (size_t message = 0; message < victim.received.size(); ++message)
    add(Site::Receive, message);
  return sites;
}

bool isSignal(const Victim &victim, const Fault &fault) {
  return victim.plan().commands[fault.index].kind == CommandKind::Signal;
}

std::vector<JobSpec> everyJob(const JobSpec &plain, const Victim &victim) {
  std::vector<JobSpec> jobs;
  for (Fault fault : everySite(victim))
    for (int action = 1; action < kActions; ++action) {
      fault.action = static_cast<Action>(action);
      if (!isPossible(fault.action, fault.site) ||
          (fault.action == Action::Drop && !isSignal(victim, fault)))
        continue;
      fault.belowMs = plain.timeoutMs / 5;
      // Some delayed ranks live long enough to report; others are killed.
      fault.aboveMs = plain.timeoutMs + (jobs.size() % 2 == 0 ? 500 : 2000);
      jobs.push_back(plain);
      jobs.back().faults = {fault};
    }
  return jobs;
}

// -- Judging. --

/// Checks that the cause names the failed rank, its operation, and the location in the program.
std::vector<std::string> mistakesOfCause(const Fault &fault, const Victim &victim,
                                         const JobOutcome &outcome) {
  std::vector<std::string> found;
  auto isNamed = [&](const std::string &text) {
    return outcome.message.find(text) != std::string::npos;
  };
  if (outcome.causeRank != fault.rank || !isNamed(fmt::format("rank {}", fault.rank)))
    found.push_back(fmt::format("rank {} is blamed", outcome.causeRank));
  if (fault.site != Site::Run)
    return found;
  if (!isNamed("ag.braid:"))
    found.push_back("no place in the program is named");
  // If a rank is killed or stopped, its other queues may be executing other commands.
  const std::string where =
      describeOrigin(victim.plan(), victim.plan().commands[fault.index].origin);
  const bool isOnlyOne = fault.action == Action::Throw || fault.action == Action::DelayAbove;
  if (isOnlyOne && !isNamed(fmt::format("{}, run {}", where, fault.run)))
    found.push_back(fmt::format("'{}' is not named", where));
  return found;
}

/// Lists the errors in a job's outcome, given the job's fault.
std::vector<std::string> mistakes(const JobSpec &spec, const JobOutcome &outcome,
                                  const Victim &victim) {
  const Fault &fault = spec.faults[0];
  const Expected expected = expectedOf(victim, fault);
  std::vector<std::string> found = contradictions(spec, outcome);
  if (!outcome.hasStruck())
    found.push_back("the fault did not happen");
  if (!isAsExpected(expected, outcome.code))
    found.push_back(fmt::format("expected {}, got {}", name(expected), outcome.code));
  if (outcome.slowestSurvivorMs() > spec.timeoutMs + kBoundMs + kForLoadMs)
    found.push_back(fmt::format("{} ms until all had ended", outcome.slowestSurvivorMs()));
  if (outcome.code != 0)
    for (std::string &mistake : mistakesOfCause(fault, victim, outcome))
      found.push_back(std::move(mistake));
  return found;
}

/// Counts of outcomes for the jobs with one action.
struct Tally {
  int sites = 0, exact = 0, peerFailed = 0, timedOut = 0, wrong = 0;
  void count(int code, bool isWrong) {
    ++sites;
    exact += code == 0;
    peerFailed += code == static_cast<int>(StatusCode::PeerFailed);
    timedOut += code == static_cast<int>(StatusCode::TimedOut);
    wrong += isWrong;
  }
  void print(const char *title) const {
    std::printf("%-12s %6d %6d %12d %10d %6d\n", title, sites, exact, peerFailed, timedOut, wrong);
  }
};

class Matrix {
public:
  void run(const std::vector<JobSpec> &specs, const Victim &victim) {
    victim_ = &victim;
    runJobs(specs, kAtOnce, Deadline::max(),
            [this](const JobSpec &spec, const JobOutcome &outcome) { judge(spec, outcome); });
    runAgain();
  }
  void print() const {
    std::printf("%-12s %6s %6s %12s %10s %6s\n", "fault", "sites", "exact", "peer failed",
                "timed out", "wrong");
    Tally all;
    for (const auto &[action, tally] : tallies_) {
      tally.print(name(action));
      all.sites += tally.sites;
      all.exact += tally.exact;
      all.peerFailed += tally.peerFailed;
      all.timedOut += tally.timedOut;
      all.wrong += tally.wrong;
    }
    all.print("all");
    std::printf("slowest survivor: %d ms after the fault (%s); run again: %zu\n",
                static_cast<int>(slowestMs_), slowest_.c_str(), again_);
  }

private:
  void judge(const JobSpec &spec, const JobOutcome &outcome) {
    const std::vector<std::string> wrong = mistakes(spec, outcome, *victim_);
    // On an overloaded machine any job may time out, and if a watchdog gets no processor time, a
    // job that should time out may succeed.
    const bool mayBeLate =
        outcome.code == static_cast<int>(StatusCode::TimedOut) ||
        (outcome.code == 0 && expectedOf(*victim_, spec.faults[0]) == Expected::TimedOut);
    if (!wrong.empty() && mayBeLate && spec.timeoutMs == JobSpec().timeoutMs) {
      late_.push_back(spec);
      std::printf("again: %s (%s)\n", str(spec.faults[0]).c_str(), wrong[0].c_str());
      return;
    }
    tallies_[spec.faults[0].action].count(outcome.code, !wrong.empty());
    if (outcome.slowestSurvivorMs() > slowestMs_) {
      slowestMs_ = outcome.slowestSurvivorMs();
      slowest_ = str(spec.faults[0]);
    }
    if (!wrong.empty())
      ADD_FAILURE() << fmt::format("{}\n- {}\n{}", str(spec), fmt::join(wrong, "\n- "),
                                   outcome.str());
  }

  /// Repeats the jobs that may have been late, with longer timeouts.
  void runAgain() {
    std::vector<JobSpec> specs;
    specs.swap(late_);
    again_ += specs.size();
    for (JobSpec &spec : specs) {
      spec.timeoutMs *= 5;
      spec.joinTimeoutMs *= 5;
      spec.faults[0].aboveMs = 2 * spec.timeoutMs;
    }
    runJobs(specs, 2, Deadline::max(),
            [this](const JobSpec &spec, const JobOutcome &outcome) { judge(spec, outcome); });
  }

  const Victim *victim_ = nullptr;
  std::map<Action, Tally> tallies_;
  std::vector<JobSpec> late_;
  size_t again_ = 0;
  int64_t slowestMs_ = 0;
  std::string slowest_;
};

std::set<std::string> sharedMemory() {
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(entry.path().string());
  return names;
}

Victim makeVictim(const JobSpec &plain, int64_t rank) {
  JobSpec patient = plain;
  patient.timeoutMs = patient.joinTimeoutMs = 30000;
  const JobOutcome outcome = runJob(patient);
  EXPECT_EQ(outcome.code, 0) << outcome.str();
  EXPECT_THAT(contradictions(patient, outcome), ::testing::IsEmpty()) << outcome.str();
  auto kinds = [](llvm::StringRef text) { return text.rtrim('.').str(); };
  const Verdict &verdict = outcome.ranks[static_cast<size_t>(rank)];
  return {rank, makeProgram(plain), kinds(verdict.sent), kinds(verdict.received)};
}

/// Runs a job for every fault of one rank.
void runMatrix(Matrix &matrix, const JobSpec &plain, int64_t rank) {
  const Victim victim = makeVictim(plain, rank);
  if (victim.sent.empty() || victim.received.empty())
    return; // the failure has been reported
  const std::vector<JobSpec> jobs = everyJob(plain, victim);
  const auto begin = std::chrono::steady_clock::now();
  matrix.run(jobs, victim);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf("%s; rank %d of them fails in %zu commands, %zu + %zu messages: %zu jobs in %.0f s\n",
              str(plain).c_str(), static_cast<int>(rank), victim.plan().commands.size(),
              victim.sent.size(), victim.received.size(), jobs.size(), time.count());
}

constexpr const char *kKilledByUs =
    "killed by signal 9 (Killed), because it did not exit on its own";

/// Rank 0 gets time to print the result, unless its process is stopped.
TEST(FaultMatrix, LauncherDoesNotWaitForAStoppedRank0) {
  JobSpec spec;
  spec.timeoutMs = 30000;
  spec.faults = {{.rank = 0, .action = Action::Stop, .site = Site::Left}};
  const JobOutcome outcome = runJob(spec);
  EXPECT_EQ(outcome.code, 0) << outcome.str();
  EXPECT_TRUE(outcome.hasStruck());
  EXPECT_THAT(contradictions(spec, outcome), ::testing::IsEmpty()) << outcome.str();
  EXPECT_EQ(outcome.ranks[0].ending, kKilledByUs);
}

TEST(FaultMatrix, StoppedRankCostsNoGracePeriod) {
  const Fault beforeJoining{.rank = 1, .action = Action::Stop, .site = Site::Join};
  const Fault running{.rank = 1, .action = Action::Stop, .site = Site::Run, .run = kFaultyRun};
  for (const Fault &fault : {beforeJoining, running}) {
    JobSpec spec;
    spec.joinTimeoutMs = 1500;
    spec.graceMs = 30000;
    spec.faults = {fault};
    const JobOutcome outcome = runJob(spec);
    EXPECT_EQ(outcome.code, static_cast<int>(StatusCode::TimedOut)) << outcome.str();
    EXPECT_TRUE(outcome.hasStruck());
    EXPECT_THAT(contradictions(spec, outcome), ::testing::IsEmpty()) << outcome.str();
    EXPECT_EQ(outcome.ranks[1].ending, kKilledByUs);
    EXPECT_LT(outcome.elapsedMs, spec.graceMs) << outcome.str();
  }
}

/// The rank that hangs takes a while to exit.
TEST(FaultMatrix, FailureIsSaidBeforeAllRanksHaveEnded) {
  JobSpec spec;
  spec.graceMs = 1000;
  spec.faults = {
      {.rank = 1, .action = Action::DelayAbove, .site = Site::Run, .run = 1, .aboveMs = 30000}};
  const JobOutcome outcome = runJob(spec);
  EXPECT_EQ(outcome.code, static_cast<int>(StatusCode::TimedOut)) << outcome.str();
  EXPECT_EQ(outcome.saidFailure, outcome.message);
  EXPECT_GT(outcome.aliveWhenSaid, 0);
}

/// All ranks may have ended before the host knows why the first one died.
TEST(FaultMatrix, FailureThatIsSaidIsTheOneReportedWhenNobodyIsLeft) {
  JobSpec spec;
  for (int64_t rank = 0; rank < spec.ranks; ++rank)
    spec.faults.push_back({.rank = rank, .action = Action::Kill, .site = Site::Run, .run = 1});
  for (int attempt = 0; attempt < 20; ++attempt) {
    const JobOutcome outcome = runJob(spec);
    EXPECT_EQ(outcome.code, static_cast<int>(StatusCode::PeerFailed)) << outcome.str();
    EXPECT_THAT(contradictions(spec, outcome), ::testing::IsEmpty()) << outcome.str();
  }
}

/// The other ranks have connected before the host fails.
TEST(FaultMatrix, HostThatCannotJoinItsOwnJobSaysWhy) {
  JobSpec spec;
  spec.isForeign = true;
  spec.timeoutMs = spec.joinTimeoutMs = 30000;
  const Fault hello{.rank = 0, .site = Site::Send, .index = 0};
  spec.faults = {hello, hello};
  spec.faults[0].action = Action::DelayBelow;
  spec.faults[0].belowMs = 1500;
  spec.faults[1].action = Action::Throw;
  const JobOutcome outcome = runJob(spec);
  EXPECT_THAT(contradictions(spec, outcome), ::testing::IsEmpty()) << outcome.str();
  for (const Verdict &verdict : outcome.ranks)
    EXPECT_EQ(verdict.message, "rank 0: no more paper") << outcome.str();
}

TEST(FaultMatrix, SurvivorsEndInTimeWithTheRightCause) {
  const std::set<std::string> before = sharedMemory();
  Matrix matrix;
  if (!runsAll)
    runMatrix(matrix, JobSpec(), 1);
  for (const std::string schedule : {"pairwise", "ring", "sequential"})
    for (const char *protocol : {"get", "put"})
      for (int64_t rank = 0; runsAll && rank < JobSpec().ranks; ++rank)
        runMatrix(matrix, {.schedule = schedule + ";protocol=" + protocol}, rank);
  matrix.print();
  EXPECT_EQ(sharedMemory(), before);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  if (std::optional<int> status = braid::test::playRole())
    return *status;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  ::testing::InitGoogleMock(&argc, argv);
  braid::test::runsAll = argc > 1 && std::string(argv[1]) == "--all";
  return RUN_ALL_TESTS();
}
