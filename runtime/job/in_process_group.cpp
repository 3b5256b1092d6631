//===- runtime/job/in_process_group.cpp - ranks that are host threads of one process ----------===//

#include "runtime/job/in_process_group.h"

#include "ir/failure.h"
#include "runtime/execute/host_memory.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace braid {

Status checkGroup(const std::string &kind, int64_t ranks, std::chrono::milliseconds timeout) {
  // Every rank takes a host thread and a worker for each stream.
  constexpr int64_t kMaxThreads = 512;
  if (ranks < 1 || ranks > kMaxThreads)
    return badInput("expected 1 to {} ranks as {}, got {}", kMaxThreads, kind, ranks);
  return checkTimeLimit(timeout);
}

Status checkInProcess(const ClusterOptions &options) {
  return checkGroup("threads of a process", options.ranks, options.timeout);
}

InProcessGroup::InProcessGroup(int64_t ranks, std::chrono::milliseconds timeout)
    : RankGroup(ranks, boundedTime(timeout), outcome_), texts_(ranks), memory_(ranks),
      steps_(ranks), hosts_(ranks) {
  for (std::atomic<HostActivity> &host : hosts_)
    host.store(HostActivity::OwnCode, std::memory_order_relaxed);
}

void InProcessGroup::abort(const Status &cause) {
  {
    std::lock_guard lock(failureMutex_);
    if (!failure_.isOk())
      return;
    failure_ = cause;
    // Before any wait is released: a released rank sees it.
    outcome_.store(kAbortedMark, std::memory_order_seq_cst);
  }
  changed_.notify_all();
  wakeOthers();
}

Status InProcessGroup::failure() const {
  if (!isAborted())
    return Status::ok();
  std::lock_guard lock(failureMutex_);
  return failure_;
}

GroupProgress InProcessGroup::progress() const {
  GroupProgress progress = probe_ ? probe_() : GroupProgress();
  progress.count += arrivals_.load(std::memory_order_relaxed);
  return progress;
}

void InProcessGroup::abortStalled(std::string headline) {
  if (reporter_)
    headline = reporter_(std::move(headline));
  abort(Status(StatusCode::TimedOut, std::move(headline)));
}

// -- Meeting. --

Result<std::vector<std::string>> InProcessGroup::allGather(int64_t rank, std::string mine) {
  Lock lock(mutex_);
  if (isAborted())
    return failure();
  texts_[rank] = std::move(mine);
  setHost(rank, HostActivity::InAllGather);
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  uint64_t round = round_;
  if (++arrived_ == size())
    finishGather();
  else
    runIfAllBlocked();
  auto isGathered = [&] { return round_ != round; };
  auto headline = [&] {
    auto isMissing = [](HostActivity state) { return state != HostActivity::InAllGather; };
    return fmt::format("expected all {} ranks in allGather within {} ms, got no call from {}",
                       size(), timeout().count(), name(isMissing));
  };
  waitFor(lock, isGathered, headline);
  if (isAborted())
    return failure();
  // The next round is complete only when this rank has come to it, so these are still this round's.
  return results_;
}

/// Ranks that waited are running from this moment on, not from when their threads wake up: they
/// must not be taken for blocked.
void InProcessGroup::finishGather() {
  results_ = texts_;
  arrived_ = 0;
  ++round_;
  for (int64_t rank = 0; rank < size(); ++rank)
    setHost(rank, HostActivity::OwnCode);
  changed_.notify_all();
}

std::string InProcessGroup::name(llvm::function_ref<bool(HostActivity)> isMissing) const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < size(); ++rank)
    if (isMissing(host(rank)))
      ranks.push_back(rank);
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

void InProcessGroup::waitFor(Lock &lock, llvm::function_ref<bool()> done,
                             llvm::function_ref<std::string()> headline) {
  StallClock clock(*this);
  // An abort does not take mutex_ and may be missed by a moment; the slice bounds how late it is
  // seen.
  while (!done() && !isAborted()) {
    changed_.wait_for(lock, slice());
    if (!done() && clock.isExpired())
      abortStalled(headline());
  }
}

/// One lock decides between a commit and an abort, so no rank finds the step committed while
/// another one finds it aborted: who comes to the lock first, having seen all ranks arrive, commits
/// for all; if an abort comes before, the step is lost for all.
Status InProcessGroup::commit(int64_t rank) {
  const uint32_t step = ++steps_[rank];
  const bool haveAllCome = allGather(rank, "").isOk();
  std::lock_guard lock(failureMutex_);
  if (haveAllCome && failure_.isOk())
    committed_ = std::max(committed_, step);
  return committed_ >= step ? Status::ok() : failure_;
}

// -- Memory. --

Result<void *> InProcessGroup::allocateSymmetric(int64_t rank, int64_t bytes) {
  void *memory = BRAID_TRY(allocateZeroed(rank, bytes));
  Lock lock(mutex_);
  OfRank &mine = memory_[rank];
  mine.allocations[memory] = {roundedBytes(bytes), std::unique_ptr<void, Free>(memory)};
  mine.bytes += roundedBytes(bytes);
  return memory;
}

void InProcessGroup::releaseSymmetric(int64_t rank, void *base) {
  Lock lock(mutex_);
  memory_[rank].released.push_back(base);
}

/// Ranks have the same addresses, so peers have nothing to unmap.
void InProcessGroup::recycleSymmetric(int64_t rank) {
  Lock lock(mutex_);
  OfRank &mine = memory_[rank];
  for (const void *base : std::exchange(mine.released, {}))
    if (const auto found = mine.allocations.find(base); found != mine.allocations.end()) {
      mine.bytes -= found->second.bytes;
      mine.allocations.erase(found);
    }
}

int64_t InProcessGroup::symmetricBytes(int64_t rank) {
  Lock lock(mutex_);
  return static_cast<int64_t>(memory_[rank].bytes);
}

/// A handle is the address, which peers may use as it is.
Result<std::string> InProcessGroup::exportMemory(int64_t rank, void *base) {
  Lock lock(mutex_);
  if (memory_[rank].allocations.count(base) == 0)
    return noSymmetricMemory(rank);
  return fmt::format("in-process:{}:{}", rank, reinterpret_cast<uintptr_t>(base));
}

Result<void *> InProcessGroup::open(int64_t peer, const std::string &handle) {
  Lock lock(mutex_);
  llvm::StringRef text = handle;
  uintptr_t address = 0;
  void *base = nullptr;
  if (text.consume_front(fmt::format("in-process:{}:", peer)) && !text.getAsInteger(10, address))
    base = reinterpret_cast<void *>(address);
  if (peer < 0 || peer >= size() || memory_[peer].allocations.count(base) == 0)
    return badInput("expected a handle that rank {} exported, got '{}'", peer, handle);
  return base;
}

// -- Waiting for a device. --

Status InProcessGroup::waitForDevice(int64_t rank, Drain drain) {
  if (allBlocked_)
    return blockUntilReleased(rank);
  setHost(rank, HostActivity::InSynchronize);
  StallClock clock(*this);
  while (!drain.isDone()) {
    drain.sleep(slice());
    if (!isAborted() && clock.isExpired())
      abortStalled(fmt::format("no progress for {} ms", timeout().count()));
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

/// Runs the handler with mutex_ held: all hosts are blocked, so nobody else has use for it, and a
/// rank that an abort releases cannot return from its call while commands of its own still run.
void InProcessGroup::runIfAllBlocked() {
  if (!allBlocked_ || isAborted() || !allHostsBlocked())
    return;
  std::vector<bool> released = allBlocked_();
  for (int64_t rank = 0; rank < size(); ++rank)
    if (released[rank] && host(rank) == HostActivity::InSynchronize)
      setHost(rank, HostActivity::OwnCode);
  changed_.notify_all();
}

Status InProcessGroup::blockUntilReleased(int64_t rank) {
  Lock lock(mutex_);
  if (isAborted())
    return failure();
  setHost(rank, HostActivity::InSynchronize);
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  runIfAllBlocked();
  auto isReleased = [&] { return host(rank) == HostActivity::OwnCode; };
  auto headline = [&] {
    auto isMissing = [](HostActivity state) { return state == HostActivity::OwnCode; };
    return fmt::format("expected all {} ranks in synchronize within {} ms, got no call from {}",
                       size(), timeout().count(), name(isMissing));
  };
  waitFor(lock, isReleased, headline);
  return failure();
}

Status InProcessGroup::waitForAllDevices() {
  assert(allBlocked_ && "without the handler there is nothing to run");
  Lock lock(mutex_);
  for (int64_t rank = 0; rank < size(); ++rank)
    setHost(rank, HostActivity::InSynchronize);
  runIfAllBlocked();
  bool areReleased = true;
  for (int64_t rank = 0; rank < size(); ++rank) {
    areReleased &= host(rank) == HostActivity::OwnCode;
    if (host(rank) == HostActivity::OwnCode)
      setHost(rank, HostActivity::InAllGather);
  }
  if (!areReleased)
    runIfAllBlocked(); // those that are left wait for ever
  for (int64_t rank = 0; rank < size(); ++rank)
    setHost(rank, HostActivity::OwnCode);
  return failure();
}

StallClock::StallClock(const InProcessGroup &group)
    : group_(group), lastCount_(group.progress().count),
      lastMove_(std::chrono::steady_clock::now()) {}

bool StallClock::isExpired() {
  GroupProgress progress = group_.progress();
  auto now = std::chrono::steady_clock::now();
  if (progress.busy || progress.count != lastCount_) {
    lastCount_ = progress.count;
    lastMove_ = now;
    return false;
  }
  return now - lastMove_ >= group_.timeout();
}

} // namespace braid
