//===- tests/runtime/executor_test.cpp - prepare and run --------------------------------------===//

#include "runtime/plan/specialize.h"
#include "tests/support/local_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace braid {
namespace {

using testing::HasSubstr;

std::string rotate(const std::string &protocol) {
  const std::string send = "%s = p2p send %mine to (rank - 1) mod 3 via %h\n",
                    receive = "%r = p2p recv %theirs from (rank + 1) mod 3 via %h\n";
  return "program @rotate mesh [0 .. 3) (%A: f32[4]) -> (%C: f32[4]) {\n"
         "%all = allocate symmetric f32[2, 4]\n%h = share_mem_handles " +
         protocol + " %all\n%mine = select %all[0]\n%theirs = select %all[1]\nset %mine, %A\n" +
         (protocol == "get" ? send + receive : receive + send) +
         "wait %r\nwait %s\nset %C, %theirs\n}\n";
}

/// Calls prepare() on each rank with its program and returns the outcomes.
std::vector<Status> prepareAll(const std::vector<std::string> &texts) {
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<Plan> plans;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    sources.push_back(parseSource("t.braid", texts[rank]));
    Result<Plan> plan = specialize(*sources.back()->module.programs.front(),
                                   static_cast<int64_t>(rank), sources.back()->diags);
    EXPECT_TRUE(plan.isOk()) << sources.back()->diags.str();
    plans.push_back(std::move(*plan));
  }
  BackendRegistry registry = builtinBackends();
  auto cluster = registry.find("cpu")->create({.ranks = static_cast<int64_t>(texts.size())});
  std::vector<Status> statuses(texts.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    threads.emplace_back([&, rank] {
      int64_t r = static_cast<int64_t>(rank);
      statuses[rank] = prepare(plans[rank], (*cluster)->device(r), (*cluster)->control(r)).status();
    });
  for (std::thread &thread : threads)
    thread.join();
  return statuses;
}

TEST(Prepare, RefusesDifferentProgramsOnEveryRank) {
  for (const Status &status : prepareAll({rotate("get"), rotate("put"), rotate("get")})) {
    EXPECT_EQ(status.code(), StatusCode::BadInput);
    EXPECT_THAT(status.message(), HasSubstr("\n  ranks 0 and 2: @rotate ("));
    EXPECT_THAT(status.message(), HasSubstr("\n  rank 1, line 4: %h = share_mem_handles put %all"));
  }
}

TEST(Prepare, RefusesATransferWithoutItsOtherSide) {
  std::string text = R"(
program @lonely mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  %x = allocate symmetric f32[4]
  %h = share_mem_handles get %x
  set %x, %A
  if rank == 0 {
    %s = p2p send %x to 1 via %h
    wait %s
  }
  set %C, %x
}
)";
  for (const Status &status : prepareAll({text, text})) {
    EXPECT_EQ(status.code(), StatusCode::BadInput);
    EXPECT_EQ(status.message(),
              "\"%s = p2p send %x to 1 via %h\" at t.braid:7:5 on rank 0 has no "
              "matching receive on rank 1: expected at least 1 for this pair of ranks");
  }
}

TEST(Prepare, RefusesAPlanOfAnotherRank) {
  auto source = parseSource("t.braid", rotate("get"));
  Result<Plan> plan = specialize(*source->module.programs.front(), 1, source->diags);
  BackendRegistry registry = builtinBackends();
  auto cluster = registry.find("cpu")->create({.ranks = 3});
  auto result = prepare(*plan, (*cluster)->device(0), (*cluster)->control(0));
  EXPECT_EQ(result.status().message(), "the plan is for rank 1 of 3, but this is rank 0 of 3");
}

} // namespace
} // namespace braid
