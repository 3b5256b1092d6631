//===- tests/runtime/fake_job.h - a job memory with contents chosen by a test -----------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/plan/specialize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace braid::test {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr const char *kRing = R"(
program @ring mesh [0 .. {0}) (%A: f32[1, 4]) -> (%C: f32[{0}, 4]) {{
  %all = allocate symmetric f32[{0}, 4]
  %h = share_mem_handles get %all
  %main = get_current_stream
  %mine = select %all[rank]
  %own = select %A[0]
  set %mine, %own
  for %i in 1 .. {1} {{
    set_current_stream stream(%i mod 2)
    synchronize %main
    %block = select %all[(rank + %i) mod {0}]
    %s = p2p send %mine to (rank - %i) mod {0} via %h
    %r = p2p recv %block from (rank + %i) mod {0} via %h
    wait %r
    %out = select %C[(rank + %i) mod {0}]
    set %out, %block
    wait %s
  }}
  set_current_stream %main
  synchronize stream(0)
  synchronize stream(1)
}}
)";

/// Returns Plans that fetch the next one or two ranks' blocks, each on a separate stream.
inline std::vector<Plan> ringPlans(int64_t ranks) {
  const std::string text = fmt::format(kRing + 1, ranks, std::min<int64_t>(ranks, 3));
  std::unique_ptr<Source> source = parseSource("ring.braid", text);
  EXPECT_TRUE(verify(source->module, source->diags)) << source->diags.str();
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Result<Plan> plan = specialize(*source->module.programs.front(), rank, source->diags);
    EXPECT_TRUE(plan.isOk()) << source->diags.str();
    plans.push_back(*plan);
  }
  return plans;
}

/// A job whose ranks have joined, are alive, and wait for their devices. All queues are empty.
class FakeJob {
public:
  static constexpr uint64_t kMs = 1000000;

  explicit FakeJob(int64_t ranks, bool hasPlans = true, const HostPlace &place = {})
      : memory(std::move(*JobMemory::create(ranks, place))),
        plans(hasPlans ? ringPlans(ranks) : std::vector<Plan>()), startNs_(monotonicNs()) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      RankSlot &slot = memory.slot(rank);
      slot.state.store(RankState::Joined, kRelaxed);
      slot.queues.store(3, kRelaxed);
      // A heartbeat in the future keeps ranks alive even if the test is slow.
      slot.heartbeatNs.store(monotonicNs() + 3600000 * kMs, kRelaxed);
      host(rank, HostActivity::InSynchronize, 500);
    }
  }

  void host(int64_t rank, HostActivity activity, uint64_t agoMs) {
    memory.slot(rank).activity.store(activity, kRelaxed);
    memory.slot(rank).activitySinceNs.store(ago(agoMs), kRelaxed);
  }

  /// Returns the command of kind `kind` whose node contains `text`, in trip `trip` unless it is 0.
  uint32_t find(int64_t rank, CommandKind kind, const std::string &text, int64_t trip = 0) const {
    const Plan &plan = plans[rank];
    for (uint32_t i = 0; i < plan.commands.size(); ++i) {
      const Origin &origin = plan.origins[plan.commands[i].origin];
      if (plan.commands[i].kind == kind &&
          plan.sites[origin.site].text.find(text) != std::string::npos &&
          (trip == 0 || (origin.tripCount > 0 && plan.trips[origin.firstTrip] == trip)))
        return i;
    }
    ADD_FAILURE() << "no " << name(kind).str() << " of " << text;
    return 0;
  }

  /// Marks all commands of a run as issued.
  void issue(int64_t rank, uint32_t run) {
    memory.slot(rank).runs.store(run, kRelaxed);
    memory.slot(rank).issued.store(run * plans[rank].commands.size(), kRelaxed);
  }

  void complete(int64_t rank, uint32_t run, uint32_t command, uint64_t agoMs = 400) {
    const uint32_t stream = plans[rank].commands[command].stream;
    QueueSlot &queue = memory.slot(rank).queue[stream];
    queue.lastDone.store(uint64_t(run) << 32 | command, kRelaxed);
    queue.completed.fetch_add(1, kRelaxed);
    queue.sinceNs.store(ago(agoMs), kRelaxed);
  }

  /// Completes the commands that precede `end` in issue order, at intervals of 2 ms.
  void completeUpTo(int64_t rank, uint32_t run, uint32_t end) {
    for (uint32_t i = 0; i < end; ++i)
      complete(rank, run, i, 1000 - 2 * i);
  }

  void enter(int64_t rank, uint32_t run, uint32_t command, bool isWaiting, uint64_t agoMs = 400) {
    const uint32_t stream = plans[rank].commands[command].stream;
    QueueSlot &queue = memory.slot(rank).queue[stream];
    queue.current.store(uint64_t(run) << 32 | command, kRelaxed);
    queue.sinceNs.store(ago(agoMs), kRelaxed);
    queue.isWaiting.store(isWaiting, kRelaxed);
    queue.flagValue.store(run - 1, kRelaxed);
    queue.wantedValue.store(run, kRelaxed);
  }

  uint64_t ago(uint64_t ms) const { return startNs_ - ms * kMs; }

  JobMemory memory;
  std::vector<Plan> plans;

private:
  uint64_t startNs_;
};

} // namespace braid::test
