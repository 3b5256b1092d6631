//===- runtime/job/rank_group.cpp - the ranks of a job that live in this process --------------===//

#include "runtime/job/rank_group.h"

#include "ir/failure.h"
#include "runtime/job/calls.h"

#include <fmt/format.h>

#include <poll.h>

namespace braid {

namespace {

constexpr auto kNoOrder = std::memory_order_relaxed;

/// Returns when the rank started to wait for other ranks, or nullopt if it is not waiting. A host
/// thread outside Braid counts as waiting if a queue is, because it may need that queue's result.
std::optional<uint64_t> waitsSince(const RankSlot &slot) {
  if (slot.activity.load(kNoOrder) != HostActivity::OwnCode)
    return slot.activitySinceNs.load(kNoOrder);
  const uint32_t queues = std::min(slot.queues.load(kNoOrder), kQueueSlots);
  for (uint32_t i = 0; i < queues; ++i)
    if (slot.queue[i].isWaiting.load(kNoOrder) != 0)
      return slot.queue[i].sinceNs.load(kNoOrder);
  return std::nullopt;
}

} // namespace

Status checkGroup(const std::string &kind, int64_t ranks, std::chrono::milliseconds timeout) {
  // Each rank needs a host thread and one worker thread per stream.
  constexpr int64_t kMaxThreads = 512;
  if (ranks < 1 || ranks > kMaxThreads)
    return badInput("expected 1 to {} ranks when ranks are {}, got {}", kMaxThreads, kind, ranks);
  return checkTimeLimit(timeout);
}

class RankGroup::Control final : public ControlPlane {
public:
  Control(RankGroup &group, int64_t rank)
      : group_(group), memory_(group.memory_), slot_(memory_.slot(rank)), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return group_.size(); }
  /// If the call fails, aborts the job, because the other ranks wait for this rank. If the call
  /// failed because of an earlier abort, the first cause is kept.
  Result<std::vector<std::string>> allGather(std::string mine) override {
    auto texts = during(HostActivity::InAllGather, [&] { return memory_.allGather(rank_, mine); });
    if (texts)
      return texts;
    abort(texts.status());
    return failure();
  }
  /// A single atomic in the job memory decides between a commit and an abort. A rank that finds
  /// that all ranks have arrived commits for all of them before it notifies any; a failure on any
  /// rank aborts the job. The first of the two takes effect, and each rank reads the atomic last.
  /// If there are several hosts, their store decides; see runtime/job/bootstrap/other_hosts.h. If a
  /// rank is killed after the commit, the step remains committed for all other ranks.
  Status commit() override {
    const uint32_t step = memory_.committed() + 1; // no step is committed without this rank
    const Status met =
        during(HostActivity::Committing, [&] { return memory_.meet(rank_, "", step); });
    if (memory_.committed() < step)
      abort(met.isOk()
                ? badInput(
                      "expected all ranks to commit, but another rank is making a different call")
                : met);
    return memory_.committed() >= step ? Status::ok() : failure();
  }
  void tick() override { slot_.tick(); }
  void noteCall(JobCall call, uint32_t program) override {
    if (!group_.areThreads_) // peers in other processes may make different calls
      braid::noteCall(slot_, call, program);
  }
  void noteUnseenRuns() override { slot_.hasUnseenRuns.store(1, kNoOrder); }
  Status failure() const override { return group_.failure(); }
  void abort(const Status &cause) override { group_.abort(cause); }

private:
  /// Calls `meet`, which waits for other ranks, and returns its result.
  template <class Meet> std::invoke_result_t<Meet> during(HostActivity activity, Meet meet) {
    slot_.setActivity(activity);
    group_.checkHost();
    auto met = meet();
    slot_.setActivity(HostActivity::OwnCode);
    return met;
  }

  RankGroup &group_;
  JobMemory &memory_;
  RankSlot &slot_;
  const int64_t rank_;
};

RankGroup::RankGroup(JobMemory &memory, std::chrono::milliseconds timeout, Ranks ranksHere,
                     bool areThreads)
    : memory_(memory), timeout_(boundedTime(timeout)), period_(watchPeriod(timeout)),
      ranksHere_(ranksHere), areThreads_(areThreads), stallRule_(timeout_, period_) {
  for (int64_t rank : ranksHere_) {
    controls_.push_back(std::make_unique<Control>(*this, rank));
    if (areThreads)
      memory.slot(rank).state.store(RankState::Joined, kNoOrder);
    memory.slot(rank).setActivity(HostActivity::OwnCode);
  }
}

/// The abort is recorded before any wait is released, so every released rank sees it.
void RankGroup::abort(const Status &cause) {
  memory_.abort({cause, areThreads_ ? -1 : ranksHere_.first});
  memory_.awaitDecision();
  wakeAll();
}

void RankGroup::wakeAll() {
  memory_.wake();
  changed_.notify_all();
  if (wake_)
    wake_();
}

// -- Waiting for a device. --

Status RankGroup::waitForDevice(int64_t rank, llvm::function_ref<bool()> isDone,
                                llvm::function_ref<void(std::chrono::milliseconds)> sleep) {
  memory_.slot(rank).setActivity(HostActivity::InSynchronize);
  if (runCommands_)
    runTogether();
  std::optional<uint64_t> giveUp;
  while (!runCommands_ && !isDone() && monotonicNs() < giveUp.value_or(~uint64_t(0))) {
    if (!areThreads_ && isAborted() && !giveUp)
      giveUp = monotonicNs() + (isStuck_ ? 0 : inNs(kGrace));
    sleep(slice());
  }
  memory_.slot(rank).setActivity(HostActivity::OwnCode);
  const Status cause = failure();
  if (runCommands_ || isDone())
    return cause;
  isStuck_ = true;
  return Status(
      cause.code(),
      fmt::format("{}\n  a command of rank {} has not finished; its buffers may still be in use",
                  cause.message(), rank));
}

/// Waits until all ranks have arrived. The last rank to arrive runs all ranks' commands while
/// holding mutex_: all host threads are waiting, so none contends for the mutex, and a rank
/// released by an abort cannot return while its commands run. abort() does not lock mutex_, so a
/// wait may miss its notification; slice() bounds the delay.
void RankGroup::runTogether() {
  std::unique_lock lock(mutex_);
  const uint64_t time = timesRun_;
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++timesRun_;
    if (!isAborted() && !runCommands_() && !isAborted()) {
      showWaits_();
      std::lock_guard plansLock(plans_.mutex);
      abort(stallCause(memory_, plans_, std::nullopt).status);
    }
    changed_.notify_all();
  }
  while (timesRun_ == time && !isAborted())
    changed_.wait_for(lock, slice());
}

// -- The watchdog. It allocates memory only when it has something to report. --

Status RankGroup::start() {
  const Status started = watchdog_.start("the watchdog", [this] { watch(); });
  if (started.isOk())
    return started;
  abort(started);
  return failure();
}

void RankGroup::watch() {
  do {
    for (int64_t rank : ranksHere_)
      memory_.slot(rank).heartbeatNs.store(monotonicNs(), kNoOrder);
    watchRank();
    if (!isAborted() && !isClosing_.load(kNoOrder))
      watchStall();
    if (isAborted())
      wakeAll(); // repeated, because a thread may have missed the last notification
  } while (!waitUntilReady(watchdog_.end(), POLLIN, deadlineIn(period_)));
}

/// Returns true if the rank is a thread that runs, or is about to run, a command that needs no
/// other rank and may take a long time. Without worker threads, commands run only once all ranks
/// have arrived, so no rank is busy.
bool RankGroup::isBusy(const RankSlot &slot) const {
  if (!areThreads_ || runCommands_)
    return false;
  bool waits = false;
  for (uint32_t i = 0; i < std::min(slot.queues.load(kNoOrder), kQueueSlots); ++i)
    if (slot.queue[i].isWaiting.load(kNoOrder) != 0)
      waits = true;
    else if (slot.queue[i].current.load(kNoOrder) != ~uint64_t(0))
      return true;
  return !waits && slot.issued.load(kNoOrder) > slot.completed();
}

void RankGroup::watchStall() {
  const std::unique_lock lock(mutex_, std::try_to_lock); // held while a host thread runs commands
  if (!lock)
    return;
  std::optional<uint64_t> since;
  bool isAnyBusy = false;
  for (int64_t rank : ranksHere_) {
    const RankSlot &slot = memory_.slot(rank);
    isAnyBusy |= isBusy(slot);
    if (const std::optional<uint64_t> waits = waitsSince(slot))
      since = std::min(since.value_or(*waits), *waits);
  }
  if (!stallRule_.isStalled(monotonicNs(), memory_.progress(), since && !isAnyBusy,
                            since.value_or(0), memory_.roundTripNs()))
    return;
  if (showWaits_)
    showWaits_();
  std::lock_guard plansLock(plans_.mutex);
  memory_.abort(stallCause(memory_, plans_, timeout_));
}

} // namespace braid
