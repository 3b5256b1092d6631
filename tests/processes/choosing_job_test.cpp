//===- tests/processes/choosing_job_test.cpp - failures while ranks choose a schedule ---------===//

#include "tests/processes/fault_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The parameter is true if a launcher other than Braid's starts the ranks.
class ChoosingJob : public ::testing::TestWithParam<bool> {
protected:
  JobSpec spec() const {
    JobSpec spec;
    spec.isForeign = GetParam();
    spec.timesBest = 3;
    spec.timeoutMs = spec.joinTimeoutMs = 10000;
    return spec;
  }
};

INSTANTIATE_TEST_SUITE_P(Job, ChoosingJob, ::testing::Values(false, true),
                         [](const auto &test) { return test.param ? "ByHand" : "Launched"; });

TEST_P(ChoosingJob, RunsWhatItHasChosen) {
  const JobSpec spec = this->spec();
  const JobOutcome outcome = runJob(spec);
  EXPECT_EQ(outcome.ranks[0].code, 0) << outcome.str();
  EXPECT_THAT(contradictions(spec, outcome), IsEmpty()) << outcome.str();
}

/// The other ranks wait for rank 0's decision before they prepare a program.
TEST_P(ChoosingJob, RunsNothingThatRank0DoesNotAccept) {
  JobSpec spec = this->spec();
  spec.isRejected = true;
  const JobOutcome outcome = runJob(spec);
  EXPECT_THAT(contradictions(spec, outcome), IsEmpty()) << outcome.str();
  for (const Verdict &verdict : outcome.ranks) {
    EXPECT_EQ(verdict.code, static_cast<int>(StatusCode::Rejected));
    EXPECT_EQ(verdict.message, "not this one");
    EXPECT_EQ(verdict.elementsCompared, 0);
  }
}

/// The fault strikes in the first program with two commands, which measures the machine.
TEST_P(ChoosingJob, NamesWhoDied) {
  for (Site site : {Site::Issue, Site::Run}) {
    JobSpec spec = this->spec();
    spec.faults = {{.rank = 1, .action = Action::Kill, .site = site, .index = 1, .run = 2}};
    const JobOutcome outcome = runJob(spec);
    EXPECT_TRUE(outcome.hasStruck());
    EXPECT_EQ(outcome.ranks[0].code, static_cast<int>(StatusCode::PeerFailed)) << outcome.str();
    EXPECT_THAT(outcome.ranks[0].message, HasSubstr("rank 1 "));
    EXPECT_THAT(contradictions(spec, outcome), IsEmpty()) << outcome.str();
  }
}

/// A rank hangs in a command, or in host code that the other ranks wait for.
TEST_P(ChoosingJob, NamesWhoHangs) {
  for (Site site : {Site::Issue, Site::Run}) {
    JobSpec spec = this->spec();
    spec.timeoutMs = 2500;
    spec.graceMs = 1000;
    spec.faults = {{.rank = 1,
                    .action = Action::DelayAbove,
                    .site = site,
                    .index = 1,
                    .run = 2,
                    .aboveMs = 8000}};
    const JobOutcome outcome = runJob(spec);
    EXPECT_TRUE(outcome.hasStruck());
    EXPECT_EQ(outcome.ranks[0].code, static_cast<int>(StatusCode::TimedOut)) << outcome.str();
    EXPECT_THAT(outcome.ranks[0].message, HasSubstr("no progress for 2500 ms: rank 1 "));
    EXPECT_THAT(contradictions(spec, outcome), IsEmpty()) << outcome.str();
  }
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  if (std::optional<int> status = braid::test::playRole())
    return *status;
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
