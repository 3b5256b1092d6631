//===- tests/processes/fault_random_test.cpp - random faults and the ranks' reports -----------===//
//
// Runs jobs of two to four ranks with random schedules and protocols, started by Braid's launcher
// or hosted by rank 0, in which one or two ranks fail at random sites. No rank may report success
// for a run that another rank reports as aborted, and all ranks must report the same cause.
//
//   fault_random_test [--seed S] [--jobs N] [--seconds T]
//
// Runs N jobs (default 1000), but starts no more after T seconds (default 45).
//
//===----------------------------------------------------------------------------------------===//

#include "tests/processes/fault_job.h"
#include "tests/support/dice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace braid::test {
namespace {

/// Additional time for a loaded machine.
constexpr int64_t kForLoadMs = 10000;
constexpr size_t kAtOnce = 8;

uint64_t seed = 1;
size_t jobCount = 1000;
int64_t seconds = 45;

Fault randomFault(Dice &dice, const JobSpec &spec, const FaultyProgram &program) {
  Fault fault;
  fault.rank = dice.below(spec.ranks);
  fault.belowMs = dice.below(spec.timeoutMs / 4);
  fault.aboveMs = spec.timeoutMs + 100 + dice.below(2000);
  do {
    fault.action = static_cast<Action>(1 + dice.below(kActions - 1));
    fault.site = static_cast<Site>(dice.below(static_cast<int64_t>(Site::Receive) + 1));
    if (dice.chance(50))
      fault.site = Site::Run;
  } while (!isPossible(fault.action, fault.site));
  const auto &commands = program.plans[static_cast<size_t>(fault.rank)].commands;
  if (fault.site == Site::Issue || fault.site == Site::Run) {
    fault.run = static_cast<uint32_t>(1 + dice.below(spec.iterations));
    fault.index = static_cast<uint32_t>(dice.below(static_cast<int64_t>(commands.size())));
  } else if (fault.site >= Site::Send) {
    fault.index = static_cast<uint32_t>(dice.below(12)); // there may be fewer messages
  }
  // Other ranks notice only skipped signals. Skipping any other command would give a wrong result.
  if (fault.action == Action::Drop && commands[fault.index].kind != CommandKind::Signal)
    fault.action = Action::Kill;
  return fault;
}

JobSpec randomJob(uint64_t number) {
  Dice dice(seed * 1000003 + number);
  JobSpec spec;
  spec.ranks = 2 + dice.below(3);
  spec.schedule = presets()[static_cast<size_t>(dice.below(3))].name.str();
  spec.schedule += dice.chance(50) ? ";protocol=get" : ";protocol=put";
  spec.iterations = 1 + dice.below(6); // one or two batches of runs in flight
  spec.isForeign = dice.chance(25);
  const FaultyProgram program = makeProgram(spec);
  for (int64_t faults = dice.chance(20) ? 2 : 1; faults > 0; --faults)
    spec.faults.push_back(randomFault(dice, spec, program));
  return spec;
}

/// Returns the limit for the time from the first fault to the end of the last rank. If rank 0 is
/// the host and does not respond, the other ranks give up only after the timeout for joining.
int64_t limitMs(const JobSpec &spec) {
  return 2000 + (spec.isForeign ? spec.joinTimeoutMs : spec.timeoutMs);
}

struct Counts {
  int jobs = 0, struck = 0, exact = 0, peerFailed = 0, timedOut = 0, silent = 0, wrong = 0,
      verdicts = 0;
};

class Judge {
public:
  void operator()(const JobSpec &spec, const JobOutcome &outcome) {
    std::vector<std::string> wrong = contradictions(spec, outcome);
    if (outcome.slowestSurvivorMs() > limitMs(spec) + kForLoadMs)
      wrong.push_back(fmt::format("{} ms until all had ended", outcome.slowestSurvivorMs()));
    const int code = count(outcome);
    int64_t &slowest = slowestMs_[spec.isForeign];
    slowest = std::max(slowest, outcome.slowestSurvivorMs());
    if (code > 0 && !outcome.hasStruck() && code != static_cast<int>(StatusCode::TimedOut))
      wrong.push_back("a failure without a fault");
    const bool isOurs = !spec.isForeign && spec.faults.size() == 1;
    if (isOurs && code == static_cast<int>(StatusCode::PeerFailed) &&
        outcome.causeRank != spec.faults[0].rank)
      wrong.push_back(fmt::format("rank {} is blamed", outcome.causeRank));
    counts_.wrong += !wrong.empty();
    if (!wrong.empty())
      ADD_FAILURE() << fmt::format("{}\n- {}\n{}", str(spec), fmt::join(wrong, "\n- "),
                                   outcome.str());
  }

  void print() const {
    std::printf("%d jobs, %d with a fault that struck: %d exact, %d peer failed, %d timed out, %d "
                "with nobody left to say so; %d verdicts compared, %d jobs wrong\n",
                counts_.jobs, counts_.struck, counts_.exact, counts_.peerFailed, counts_.timedOut,
                counts_.silent, counts_.verdicts, counts_.wrong);
    std::printf("slowest survivor: %d ms after the fault with a launcher, %d ms without\n",
                static_cast<int>(slowestMs_[0]), static_cast<int>(slowestMs_[1]));
  }

private:
  /// Counts the job under its ranks' status code and returns the code, or -1 if no rank reported.
  int count(const JobOutcome &outcome) {
    int code = -1;
    for (const Verdict &verdict : outcome.ranks)
      if (verdict.isThere) {
        code = verdict.code;
        ++counts_.verdicts;
      }
    ++counts_.jobs;
    counts_.struck += outcome.hasStruck();
    counts_.exact += code == 0;
    counts_.peerFailed += code == static_cast<int>(StatusCode::PeerFailed);
    counts_.timedOut += code == static_cast<int>(StatusCode::TimedOut);
    counts_.silent += code == -1;
    return code;
  }

  Counts counts_;
  int64_t slowestMs_[2] = {}; ///< with Braid's launcher, and without it
};

TEST(FaultRandom, NoRankCallsAnAbortedRunASuccess) {
  std::vector<JobSpec> jobs;
  for (uint64_t number = 0; number < jobCount; ++number)
    jobs.push_back(randomJob(number));
  Judge judge;
  const auto begin = std::chrono::steady_clock::now();
  const size_t done =
      runJobs(jobs, kAtOnce, deadlineIn(std::chrono::seconds(seconds)),
              [&](const JobSpec &spec, const JobOutcome &outcome) { judge(spec, outcome); });
  judge.print();
  std::printf("%zu of %zu jobs of seed %llu in %.0f s\n", done, jobs.size(),
              static_cast<unsigned long long>(seed),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  EXPECT_GT(done, 0u);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  using namespace braid::test;
  if (std::optional<int> status = playRole())
    return *status;
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--seed")
      seed = std::stoull(argv[i + 1]);
    else if (flag == "--jobs")
      jobCount = std::stoull(argv[i + 1]);
    else if (flag == "--seconds")
      seconds = std::stoll(argv[i + 1]);
  }
  return RUN_ALL_TESTS();
}
