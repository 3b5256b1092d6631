//===- runtime/job/in_process_group.cpp - ranks that are host threads of one process ----------===//

#include "runtime/job/in_process_group.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/socket.h"

namespace braid {

static constexpr auto kNoOrder = std::memory_order_relaxed;

Status checkGroup(const std::string &kind, int64_t ranks, std::chrono::milliseconds timeout) {
  // Each rank needs a host thread and one worker per stream.
  constexpr int64_t kMaxThreads = 512;
  if (ranks < 1 || ranks > kMaxThreads)
    return badInput("expected 1 to {} ranks as {}, got {}", kMaxThreads, kind, ranks);
  return checkTimeLimit(timeout);
}

InProcessGroup::InProcessGroup(JobMemory &memory, std::chrono::milliseconds timeout)
    : RankGroup(memory, boundedTime(timeout)), steps_(static_cast<size_t>(memory.ranks())) {
  for (int64_t rank = 0; rank < size(); ++rank) {
    memory.slot(rank).state.store(RankState::Joined, kNoOrder);
    setHost(rank, HostActivity::OwnCode);
  }
}

/// The abort is set before any wait is released, so every released rank sees it.
void InProcessGroup::abort(const Status &cause) {
  if (!memory().abort({cause}))
    return;
  changed_.notify_all();
  wakeOthers();
}

HostActivity InProcessGroup::host(int64_t rank) const {
  return memory().slot(rank).activity.load(kNoOrder);
}

void InProcessGroup::setHost(int64_t rank, HostActivity activity) {
  memory().slot(rank).setActivity(activity);
}

void InProcessGroup::tick(int64_t rank) { memory().slot(rank).arrivals.fetch_add(1, kNoOrder); }

// -- Stalls. --

/// Returns true if the rank runs, or is about to run, a command that completes without other ranks.
/// A backend without workers makes progress only when all ranks have arrived, so no rank is busy.
bool InProcessGroup::isBusy(const RankSlot &slot) const {
  if (commands_.run)
    return false;
  bool waits = false;
  for (uint32_t i = 0; i < std::min(slot.queues.load(kNoOrder), kQueueSlots); ++i)
    if (slot.queue[i].isWaiting.load(kNoOrder) != 0)
      waits = true;
    else if (slot.queue[i].current.load(kNoOrder) != ~uint64_t(0))
      return true;
  return !waits && slot.issued.load(kNoOrder) > slot.completed();
}

/// Updates all heartbeats first, because these ranks have no watchdogs to do so.
void InProcessGroup::abortIfStalled(StallRule &rule) {
  bool isAnyBusy = false;
  for (int64_t rank = 0; rank < size() && !isAnyBusy; ++rank)
    isAnyBusy = isBusy(memory().slot(rank));
  if (!rule.isStalled(monotonicNs(), memory().progress(), !isAnyBusy, 0))
    return;
  for (int64_t rank = 0; rank < size(); ++rank)
    memory().slot(rank).heartbeatNs.store(monotonicNs(), kNoOrder);
  if (commands_.showWaits)
    commands_.showWaits();
  std::lock_guard lock(plansMutex_);
  abort(stallCause(memory(), plans_, timeout()).status);
}

/// abort() does not lock mutex_, so a wait may miss its notification; the slice bounds the delay.
void InProcessGroup::waitFor(Lock &lock, llvm::function_ref<bool()> done) {
  StallRule rule(timeout(), slice());
  while (!done() && !isAborted()) {
    changed_.wait_for(lock, slice());
    if (!done() && !isAborted())
      abortIfStalled(rule);
  }
}

// -- All-gathers. --

/// All ranks count as running from the moment at which the last one arrives, not from when their
/// threads wake up, so that none is mistaken for blocked.
Status InProcessGroup::meet(int64_t rank, const std::string &part, uint32_t step,
                            HostActivity activity) {
  Lock lock(mutex_);
  if (isAborted())
    return failure();
  const uint32_t number = memory().slot(rank).gathers.load(kNoOrder) + 1;
  setHost(rank, activity);
  tick(rank);
  if (const Status brought = memory().bring(rank, number, part, step); !brought.isOk())
    abort(brought);
  auto isGathered = [&] { return static_cast<int32_t>(memory().gathered() - number) >= 0; };
  if (isGathered()) {
    for (int64_t each = 0; each < size(); ++each)
      setHost(each, HostActivity::OwnCode);
    changed_.notify_all();
  } else {
    runIfAllBlocked();
  }
  waitFor(lock, isGathered);
  return isGathered() ? Status::ok() : failure();
}

Result<std::vector<std::string>> InProcessGroup::allGather(int64_t rank, const std::string &mine) {
  BRAID_TRY(meet(rank, mine, 0, HostActivity::InAllGather));
  return memory().parts(memory().allRanks(), memory().slot(rank).gathers.load(kNoOrder));
}

/// A single atomic in the job memory decides between a commit and an abort; see JobMemory.
Status InProcessGroup::commit(int64_t rank) {
  const uint32_t step = ++steps_[static_cast<size_t>(rank)];
  return committed(step, meet(rank, "", step, HostActivity::Committing));
}

// -- Waits for a device. --

Status InProcessGroup::waitForDevice(int64_t rank, Drain drain) {
  if (commands_.run)
    return blockUntilReleased(rank);
  setHost(rank, HostActivity::InSynchronize);
  StallRule rule(timeout(), slice());
  while (!drain.isDone()) {
    drain.sleep(slice());
    if (!isAborted() && !drain.isDone())
      abortIfStalled(rule);
  }
  setHost(rank, HostActivity::OwnCode);
  return failure();
}

bool InProcessGroup::allHostsBlocked() const {
  for (int64_t rank = 0; rank < size(); ++rank)
    if (host(rank) == HostActivity::OwnCode)
      return false;
  return true;
}

/// Runs commands with mutex_ held. All host threads are blocked, so no thread contends for it, and
/// a rank released by an abort cannot return while its commands run. A rank without remaining
/// commands continues and may issue what the others wait for. If no rank can continue, the job is
/// deadlocked: the ranks in allGather() wait for those in waitForDevice().
void InProcessGroup::runIfAllBlocked() {
  if (!commands_.run || isAborted() || !allHostsBlocked())
    return;
  const std::vector<bool> areDone = commands_.run();
  bool canGoOn = false;
  for (int64_t rank = 0; rank < size(); ++rank)
    if (areDone[static_cast<size_t>(rank)] && host(rank) == HostActivity::InSynchronize) {
      setHost(rank, HostActivity::OwnCode);
      canGoOn = true;
    }
  if (!canGoOn && !isAborted())
    abortDeadlocked();
  changed_.notify_all();
}

void InProcessGroup::abortDeadlocked() {
  commands_.showWaits();
  std::lock_guard lock(plansMutex_);
  abort(deadlockCause(memory(), plans_).status);
}

Status InProcessGroup::blockUntilReleased(int64_t rank) {
  Lock lock(mutex_);
  if (isAborted())
    return failure();
  setHost(rank, HostActivity::InSynchronize);
  tick(rank);
  runIfAllBlocked();
  waitFor(lock, [&] { return host(rank) == HostActivity::OwnCode; });
  return failure();
}

} // namespace braid
