//===- runtime/job/rank_group.cpp - the ranks of a job that live in this process --------------===//

#include "runtime/job/rank_group.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/job/calls.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace braid {

namespace {

constexpr auto kNoOrder = std::memory_order_relaxed;

class RankControl final : public ControlPlane {
public:
  /// `notesCalls` must be true if peers in other processes may make different calls.
  RankControl(RankGroup &group, int64_t rank, bool notesCalls)
      : group_(group), slot_(group.memory().slot(rank)), rank_(rank), notesCalls_(notesCalls) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return group_.size(); }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return group_.allGather(rank_, mine);
  }
  Status commit() override { return group_.commit(rank_); }
  void tick() override { group_.tick(rank_); }
  void noteCall(JobCall call, uint32_t program) override {
    if (notesCalls_)
      braid::noteCall(slot_, call, program);
  }
  void noteUnseenRuns() override { slot_.hasUnseenRuns.store(1, kNoOrder); }
  Status failure() const override { return group_.failure(); }
  void abort(const Status &cause) override { group_.abort(cause); }

private:
  RankGroup &group_;
  RankSlot &slot_;
  const int64_t rank_;
  const bool notesCalls_;
};

auto seqOf(Ranks ranks) { return llvm::seq(ranks.first, ranks.first + ranks.count); }

/// Returns the time since which the rank has been waiting for others, or nullopt. A host thread
/// outside Braid counts as waiting if a queue is waiting, because it may await that queue's result.
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
  // Each rank needs a host thread and one worker per stream.
  constexpr int64_t kMaxThreads = 512;
  if (ranks < 1 || ranks > kMaxThreads)
    return badInput("expected 1 to {} ranks as {}, got {}", kMaxThreads, kind, ranks);
  return checkTimeLimit(timeout);
}

RankGroup::RankGroup(JobMemory &memory, std::chrono::milliseconds timeout, Ranks ranksHere,
                     bool areThreads)
    : memory_(memory), timeout_(boundedTime(timeout)), period_(watchPeriod(timeout)),
      ranksHere_(ranksHere), areThreads_(areThreads), stallRule_(timeout_, period_) {
  for (int64_t rank : seqOf(ranksHere_)) {
    controls_.push_back(std::make_unique<RankControl>(*this, rank, !areThreads));
    if (areThreads)
      memory.slot(rank).state.store(RankState::Joined, kNoOrder);
    setActivity(rank, HostActivity::OwnCode);
  }
}

void RankGroup::setActivity(int64_t rank, HostActivity activity) {
  memory_.slot(rank).setActivity(activity);
  tick(rank);
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

// -- All-gathers. --

Status RankGroup::meet(int64_t rank, const std::string &part, uint32_t step,
                       HostActivity activity) {
  setActivity(rank, activity);
  Status met = failure();
  if (met.isOk())
    met = joinGather(rank, part, step);
  setActivity(rank, HostActivity::OwnCode);
  return met;
}

Status RankGroup::joinGather(int64_t rank, const std::string &part, uint32_t step) {
  const uint32_t number = memory_.slot(rank).gathers.load(kNoOrder) + 1;
  BRAID_TRY(memory_.bring(rank, number, part, step));
  while (static_cast<int32_t>(memory_.gathered() - number) < 0) {
    BRAID_TRY(failure());
    memory_.waitForGather(number, slice());
  }
  return Status::ok();
}

/// If the call fails, aborts the job, because the other ranks wait for this rank. The failure may
/// itself be an abort.
Result<std::vector<std::string>> RankGroup::allGather(int64_t rank, const std::string &mine) {
  Status status = meet(rank, mine, 0, HostActivity::InAllGather);
  if (status.isOk()) {
    auto texts = memory_.parts(memory_.allRanks(), memory_.slot(rank).gathers.load(kNoOrder));
    if (texts)
      return texts;
    status = texts.status();
  }
  abort(status);
  return failure();
}

/// A single atomic in the job memory decides between a commit and an abort. A rank that knows that
/// all ranks have arrived commits for all of them before it notifies any; a failure on any rank
/// aborts. The first of the two takes effect, and each rank reads the atomic last. If there are
/// several hosts, their store decides; see runtime/job/bootstrap/other_hosts.h. If a rank is killed
/// after the commit, the step remains committed for all other ranks.
Status RankGroup::commit(int64_t rank) {
  const uint32_t step = memory_.committed() + 1; // no step is committed without this rank
  const Status met = meet(rank, "", step, HostActivity::Committing);
  if (memory_.committed() < step)
    abort(met.isOk()
              ? Status(StatusCode::BadInput,
                       "expected all ranks to commit, but another rank is in a different call")
              : met);
  return memory_.committed() >= step ? Status::ok() : failure();
}

// -- Waiting for a device. --

Status RankGroup::waitForDevice(int64_t rank, Drain drain) {
  setActivity(rank, HostActivity::InSynchronize);
  if (runCommands_)
    runTogether();
  else
    while (!drain.isDone())
      drain.sleep(slice());
  setActivity(rank, HostActivity::OwnCode);
  return failure();
}

/// Waits until all ranks have arrived. The last one to arrive runs all ranks' commands with mutex_
/// held: all host threads are waiting, so none contends for the mutex, and a rank released by an
/// abort cannot return while its commands run. abort() does not lock mutex_, so a wait may miss its
/// notification; the slice bounds the delay.
void RankGroup::runTogether() {
  std::unique_lock lock(mutex_);
  const uint64_t time = timesRun_;
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++timesRun_;
    if (!isAborted() && !runCommands_() && !isAborted()) {
      showWaits_();
      std::lock_guard plansLock(plansMutex_);
      abort(deadlockCause(memory_, plans_).status);
    }
    changed_.notify_all();
  }
  while (timesRun_ == time && !isAborted())
    changed_.wait_for(lock, slice());
}

// -- The watchdog. It allocates memory only when it has something to report. --

Status RankGroup::start() {
  const Status started = startThread(watchdog_, "a watchdog", [this] { watch(); });
  if (started.isOk())
    return started;
  abort(started);
  return failure();
}

void RankGroup::stop() {
  {
    std::lock_guard lock(endMutex_);
    isEnding_ = true;
  }
  endChanged_.notify_all();
  if (watchdog_.joinable())
    watchdog_.join();
}

void RankGroup::watch() {
  std::unique_lock lock(endMutex_);
  while (!isEnding_) {
    lock.unlock();
    for (int64_t rank : seqOf(ranksHere_))
      memory_.slot(rank).heartbeatNs.store(monotonicNs(), kNoOrder);
    watchRank();
    if (!isAborted() && !isClosing_.load(kNoOrder))
      watchStall();
    if (isAborted())
      wakeAll(); // repeated, because a thread may have missed the last notification
    lock.lock();
    endChanged_.wait_for(lock, period_, [this] { return isEnding_; });
  }
}

/// Returns true if the rank is a thread that runs, or is about to run, a command that needs no
/// other rank and may take a long time. Without workers, commands run only once all ranks have
/// arrived, so no rank is busy.
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
  for (int64_t rank : seqOf(ranksHere_)) {
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
  std::lock_guard plansLock(plansMutex_);
  memory_.abort(stallCause(memory_, plans_, timeout_));
}

} // namespace braid
