//===- tests/runtime/calls_test.cpp - detecting ranks that make different calls ---------------===//

#include "runtime/job/calls.h"
#include "tests/runtime/fake_job.h"

#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// Three ranks that record calls. All ranks have registered both programs.
class CallsTest : public ::testing::Test {
protected:
  CallsTest() : memory_(std::move(*JobMemory::create(3, {}))) {
    for (const auto &[name, plans] : {std::pair("first", &first_), std::pair("second", &second_)}) {
      *plans = ringPlans(3);
      for (Plan &plan : *plans) {
        plan.program = name;
        plan.text = std::string("program @") + name;
      }
    }
    numberCommands(second_, numberCommands(first_, 0));
    plans_.add(first_);
    plans_.add(second_);
  }
  void note(int64_t rank, JobCall call, const std::vector<Plan> *plans = nullptr) {
    noteCall(memory_.slot(rank), call, plans ? plans->front().firstCommand : kNoCommand);
  }
  void noteAll(JobCall call, const std::vector<Plan> *plans = nullptr) {
    for (int64_t rank = 0; rank < 3; ++rank)
      note(rank, call, plans);
  }
  std::string tell(int64_t rank) const { return describeDisagreement(memory_, plans_, rank); }

  JobMemory memory_;
  std::vector<Plan> first_, second_;
  KnownPlans plans_;
};

TEST_F(CallsTest, SaysNothingWhereRanksAgree) {
  EXPECT_EQ(tell(0), "");
  for (int turn = 0; turn < 1000; ++turn) {
    noteAll(turn % 3 ? JobCall::Run : JobCall::Prepare, turn % 2 ? &first_ : &second_);
    ASSERT_EQ(tell(turn % 3), "");
  }
}

TEST_F(CallsTest, WhoIsLateDoesNotDisagree) {
  noteAll(JobCall::Run, &first_);
  for (int ahead = 0; ahead < 20; ++ahead)
    note(0, JobCall::Run, ahead % 2 ? &first_ : &second_);
  EXPECT_EQ(tell(0), "");
  EXPECT_EQ(tell(1), "");
}

TEST_F(CallsTest, SaysWhichRankRunsWhat) {
  noteAll(JobCall::Run, &second_);
  note(0, JobCall::Run, &first_);
  note(2, JobCall::Run, &first_);
  EXPECT_EQ(tell(0), "");
  note(1, JobCall::Run, &second_);
  const std::string all = "expected all ranks to make the same calls in the same order, got\n"
                          "  ranks 0 and 2: run of @first\n"
                          "  rank 1: run of @second\n"
                          "  ranks 0 and 2, line 1: program @first\n"
                          "  rank 1, line 1: program @second";
  for (int64_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(tell(rank), all);
  noteAll(JobCall::Run, &first_);
  EXPECT_EQ(tell(1), all) << "though they agree since";
}

/// Only the rank that prepares a program knows the program's name, so that rank reports the error.
TEST_F(CallsTest, WhoPreparesTells) {
  note(0, JobCall::Prepare, &second_);
  note(1, JobCall::Run, &first_);
  EXPECT_EQ(tell(0), "expected all ranks to make the same calls in the same order, got\n"
                     "  rank 0: preparing @second\n"
                     "  rank 1: run of @first");
  EXPECT_EQ(tell(1), "");
}

TEST_F(CallsTest, WhatRanksMeetInIsComparedThere) {
  note(0, JobCall::Prepare, &second_);
  note(1, JobCall::Prepare, &first_);
  note(2, JobCall::Commit);
  for (int64_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(tell(rank), "");
}

TEST_F(CallsTest, NamesCallsOfNoProgram) {
  note(0, JobCall::Close);
  note(1, JobCall::Run, &first_);
  EXPECT_EQ(tell(1), "expected all ranks to make the same calls in the same order, got\n"
                     "  rank 0: closing the job\n"
                     "  rank 1: run of @first");
}

TEST_F(CallsTest, ComparesNothingBesideGraphsOfTheCaller) {
  memory_.slot(1).hasUnseenRuns.store(1);
  note(0, JobCall::Run, &first_);
  note(1, JobCall::Run, &second_);
  note(2, JobCall::Run, &second_);
  EXPECT_EQ(tell(1), "");
  EXPECT_NE(tell(0), "") << "of rank 2, which has none";
}

} // namespace
} // namespace braid::test
