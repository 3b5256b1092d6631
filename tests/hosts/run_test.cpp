//===- tests/hosts/run_test.cpp - programs for several hosts, compared with the reference -----===//
//
// The ranks are threads of one process and act as if they were on the hosts that the program
// specifies: ranks of the same host access each other's memory, and ranks of different hosts send
// messages (tests/support/message_cluster.h).
//
//===----------------------------------------------------------------------------------------===//

#include "backends/null/null_backend.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/client.h"
#include "tests/hosts/support.h"
#include "tests/support/configured.h"
#include "tests/support/local_mesh.h"
#include "tests/support/message_cluster.h"
#include "tests/support/random_fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

struct Seen {
  int64_t groups = 0, collectives = 0, endpoints = 0, ran = 0;
};

Status runOverHosts(const std::string &text, CompileOptions compileOptions, RunOptions options,
                    Seen &seen) {
  static const Backend backend = messageBackend();
  compileOptions.transport = Transport::PeerMemory;
  for (Knob knob : kKnobsOfPeerMemory)
    compileOptions.schedule.all.set(knob, std::nullopt);
  options.cluster = {.timeout = std::chrono::seconds(60)};
  options.verify = true;
  std::unique_ptr<Source> source = parseSource("drawn.braid", text);
  Result<Compiled> compiled = compile(*source, compileOptions);
  if (!compiled)
    return compiled.status().annotated(source->diags.str());
  const std::vector<Plan> plans = BRAID_TRY(makePlans(*compiled));
  const CheckReport checked = BRAID_TRY(check(plans, compiled->fusion, {.queues = 1}));
  if (!checked.isSafe())
    return Status(StatusCode::Rejected, str(checked));
  for (const Plan &plan : plans) {
    seen.groups += static_cast<int64_t>(plan.groups.size());
    seen.collectives += static_cast<int64_t>(plan.collectives.size());
    seen.endpoints += static_cast<int64_t>(plan.endpoints.size());
  }
  ++seen.ran;
  return run(*compiled, plans, backend, options).status();
}

TEST(HostsRun, EveryRandomCaseIsSafeAndEqualsTheReference) {
  const RandomKinds all[] = {{.hosts = true},
                             {.sums = true, .hosts = true},
                             {.sums = true, .functions = true, .hosts = true},
                             {.whole = true, .hosts = true}};
  Seen seen;
  for (const RandomKinds &kinds : all)
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      const RandomCase drawn = randomCase(seed, kinds);
      const Status status = runOverHosts(drawn.text, drawn.compile, drawn.run, seen);
      ASSERT_TRUE(status.isOk()) << drawn.str() << status.message();
    }
  EXPECT_GT(seen.groups, 200);
  EXPECT_GT(seen.endpoints, 200);
}

TEST(HostsRun, EveryScheduleEqualsTheReference) {
  Seen seen;
  for (const auto &[ranks, ofHost] : {std::pair<int64_t, int64_t>{4, 2}, {6, 2}, {6, 3}, {4, 1}})
    for (const Preset &preset : presets())
      for (const char *rest : {";streams=1", ";chunks=2;streams=2", ""})
        for (const std::string &text : {gatherOf(ranks, ofHost), scatterOf(ranks, ofHost)}) {
          const std::string schedule = preset.name.str() + rest;
          const Status status =
              runOverHosts(text, {.schedule = configured(schedule)}, {.iterations = 3}, seen);
          // Some stages do not support the schedule.
          const bool isRefused = status.code() == StatusCode::BadInput;
          EXPECT_TRUE(status.isOk() || isRefused) << text << schedule << status.message();
        }
  EXPECT_GT(seen.ran, 100);
  EXPECT_GT(seen.collectives, 0);
}

/// The put protocol is used only within a host, where it is safe.
TEST(HostsRun, PutWithinAHost) {
  for (const char *schedule : {"pairwise;protocol=put", "ring;protocol=put"}) {
    const Planned made = planned(gatherOf(4, 2), schedule);
    const Result<RunReport> report =
        run(made.compiled, made.plans, messageBackend(), {.iterations = 4, .verify = true});
    EXPECT_TRUE(report.isOk()) << schedule << report.status().message();
  }
}

//===- Refusals -------------------------------------------------------------------------------===//

/// The null backend cannot send messages.
TEST(HostsRun, RefusesADeviceWithoutMessages) {
  BackendRegistry registry;
  registerNullBackend(registry);
  const Planned made = planned(gatherOf(4, 2), "pairwise");
  const Result<RunReport> report = run(made.compiled, made.plans, *registry.find("null"), {});
  ASSERT_FALSE(report.isOk());
  EXPECT_EQ(report.status().code(), StatusCode::Unsupported);
  EXPECT_THAT(report.status().message(),
              testing::MatchesRegex("t.braid:5:3: ranks [0-3] and [0-3] are on different hosts: "
                                    "expected a backend that sends messages"));
}

/// One rank supports messages but cannot open the message transport.
TEST(HostsRun, SaysWhatMessagesWereFor) {
  const Planned made = planned(gatherOf(4, 2), "pairwise");
  const Result<RunReport> report = run(made.compiled, made.plans, messageBackend(/*dumb=*/2), {});
  ASSERT_FALSE(report.isOk());
  EXPECT_THAT(report.status().message(),
              testing::HasSubstr("setting up messages between hosts for \"%"));
  EXPECT_THAT(report.status().message(), testing::HasSubstr("this rank has no voice"));
}

/// A program that sends no messages between hosts does not open the message transport.
TEST(HostsRun, NeedsNoMessagesWithinHosts) {
  const Planned made = planned(R"(program @p mesh [0 .. 4) of 2 (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[4]
  %h = share_mem_handles get %all
  set %all, %A
  %s = p2p send %all to rank xor 1 via %h
  %r = p2p recv %C from rank xor 1 via %h
  wait %r
  wait %s
}
)");
  for (int64_t dumb : {-1, 2}) {
    const Result<RunReport> report = run(made.compiled, made.plans, messageBackend(dumb), {});
    EXPECT_TRUE(report.isOk()) << report.status().message();
  }
}

/// A cluster that pretends to consist of processes on hosts with `ofHost` ranks each.
class OnHosts final : public Cluster {
public:
  OnHosts(std::unique_ptr<Cluster> inner, int64_t ofHost)
      : inner_(std::move(inner)), ofHost_(ofHost) {}
  int64_t ranks() const override { return inner_->ranks(); }
  std::optional<int64_t> ranksPerHost() const override { return ofHost_; }
  Device &device(int64_t rank) override { return inner_->device(rank); }
  ControlPlane &control(int64_t rank) override { return inner_->control(rank); }

private:
  std::unique_ptr<Cluster> inner_;
  int64_t ofHost_;
};

TEST(HostsRun, RefusesAProgramOfOtherHosts) {
  const auto runOn = [](int64_t ofHost, int64_t ofProgram) {
    Backend backend = messageBackend();
    backend.create = [create = backend.create,
                      ofHost](const ClusterOptions &options) -> Result<std::unique_ptr<Cluster>> {
      return std::unique_ptr<Cluster>(
          std::make_unique<OnHosts>(BRAID_TRY(create(options)), ofHost));
    };
    const Planned made = planned(gatherOf(4, ofProgram), "pairwise");
    return run(made.compiled, made.plans, backend, {}).status();
  };
  EXPECT_TRUE(runOn(2, 2).isOk());
  EXPECT_TRUE(runOn(4, 4).isOk());
  EXPECT_EQ(runOn(4, 2).code(), StatusCode::BadInput);
  EXPECT_EQ(runOn(4, 2).message(), "@g_pairwise is for 2 hosts of 2 ranks each, but the job has 1 "
                                   "host of 4 ranks: expected mesh [0 .. 4) of 4");
  EXPECT_EQ(runOn(2, 4).message(), "@g_pairwise is for 1 host of 4 ranks, but the job has 2 hosts "
                                   "of 2 ranks each: expected mesh [0 .. 4) of 2");
}

} // namespace
} // namespace braid::test
