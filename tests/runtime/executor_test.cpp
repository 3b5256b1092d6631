//===- tests/runtime/executor_test.cpp - prepare and run --------------------------------------===//

#include "runtime/plan/specialize.h"
#include "tests/support/local_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace braid {
namespace {

using testing::HasSubstr;

constexpr const char *kRotate = R"(
program @rotate mesh [0 .. 3) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles PROTOCOL %all
  %mine = select %all[0]
  %theirs = select %all[1]
  set %mine, %A
  FIRST
  SECOND
  wait %r
  wait %s
  set %C, %theirs
}
)";

std::string rotate(const std::string &protocol) {
  std::string text = kRotate, send = "%s = p2p send %mine to (rank - 1) mod 3 via %h",
              receive = "%r = p2p recv %theirs from (rank + 1) mod 3 via %h";
  auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("PROTOCOL", protocol);
  replace("FIRST", protocol == "get" ? send : receive);
  replace("SECOND", protocol == "get" ? receive : send);
  return text;
}

struct Mesh {
  std::unique_ptr<Source> source;
  std::unique_ptr<LocalMesh> mesh;
};

Mesh prepared(const std::string &text, const ClusterOptions &options) {
  Mesh made{parseSource("t.braid", text), nullptr};
  Result<Compiled> compiled = compile(*made.source, {});
  EXPECT_TRUE(compiled.isOk()) << made.source->diags.str();
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), options);
  EXPECT_TRUE(mesh.isOk()) << mesh.status().message();
  made.mesh = std::move(*mesh);
  Status status = made.mesh->prepare(*compiled);
  EXPECT_TRUE(status.isOk()) << status.message();
  return made;
}

class Executor : public testing::TestWithParam<std::string> {};

TEST_P(Executor, RunsManyTimesAtNewAddressesWithoutWaiting) {
  constexpr int64_t kRanks = 3, kRuns = 50;
  Mesh made = prepared(rotate(GetParam()), {.ranks = kRanks});
  using Row = std::array<float, 4>;
  std::vector<std::vector<Row>> inputs(kRuns, std::vector<Row>(kRanks)), outputs = inputs;
  for (int64_t run = 0; run < kRuns; ++run) {
    std::vector<RunArguments> arguments(kRanks);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      inputs[run][rank].fill(static_cast<float>(run * 10 + static_cast<int64_t>(rank)));
      arguments[rank] = {{inputs[run][rank].data()}, {outputs[run][rank].data()}};
    }
    made.mesh->run(arguments);
  }
  Status status = made.mesh->synchronize();
  ASSERT_TRUE(status.isOk()) << status.message();
  for (int64_t run = 0; run < kRuns; ++run)
    for (size_t rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(outputs[run][rank], inputs[run][(rank + 1) % kRanks]) << run << " " << rank;
}

INSTANTIATE_TEST_SUITE_P(Protocols, Executor, testing::Values("get", "put"));

/// The outcome of prepare() on each rank, when the ranks bring these programs.
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
    EXPECT_EQ(status.message(), "\"%s = p2p send %x to 1 via %h\" at t.braid:7:5 on rank 0 meets "
                                "no receive on rank 1: expected number 1 of that pair");
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
