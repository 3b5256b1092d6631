//===- runtime/in_process_group.cpp - ranks that are host threads of one process --------------===//

#include "runtime/in_process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace braid {

Status checkInProcess(const ClusterOptions &options) {
  // Every rank takes a host thread and a worker for each stream.
  constexpr int64_t kMaxRanks = 512;
  if (options.ranks < 1 || options.ranks > kMaxRanks)
    return Status(StatusCode::BadInput,
                  fmt::format("expected 1 to {} ranks as threads of a process, got {}", kMaxRanks,
                              options.ranks));
  if (options.timeout.count() < 1)
    return Status(
        StatusCode::BadInput,
        fmt::format("expected a timeout of at least 1 ms, got {} ms", options.timeout.count()));
  return Status::ok();
}

InProcessGroup::InProcessGroup(int64_t ranks, std::chrono::milliseconds timeout)
    : timeout_(timeout), texts_(ranks), hosts_(ranks) {
  for (std::atomic<HostState> &host : hosts_)
    host.store(HostState::Running, std::memory_order_relaxed);
}

std::chrono::milliseconds InProcessGroup::slice() const {
  using std::chrono::milliseconds;
  return std::clamp(timeout_ / 8, milliseconds(1), milliseconds(20));
}

void InProcessGroup::abort(const Status &cause) {
  {
    std::lock_guard lock(failureMutex_);
    if (!failure_.isOk())
      return;
    failure_ = cause;
    // Before any wait is released: whoever is released sees it.
    aborted_.store(true, std::memory_order_seq_cst);
  }
  changed_.notify_all();
  if (wake_)
    wake_();
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
  setHost(rank, HostState::InAllGather);
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  uint64_t round = round_;
  if (++arrived_ == size())
    finishGather();
  else
    runIfAllBlocked();
  auto isGathered = [&] { return round_ != round; };
  auto headline = [&] {
    auto isMissing = [](HostState state) { return state != HostState::InAllGather; };
    return fmt::format("expected all {} ranks in allGather within {} ms, got no call from {}",
                       size(), timeout_.count(), name(isMissing));
  };
  waitFor(lock, isGathered, headline);
  if (isAborted())
    return failure();
  // The next round is complete only when this rank has come to it, so these are still this round's.
  return results_;
}

/// Those who waited are running from this moment on, not from when their threads wake up: they must
/// not be taken for blocked.
void InProcessGroup::finishGather() {
  results_ = texts_;
  arrived_ = 0;
  ++round_;
  for (int64_t rank = 0; rank < size(); ++rank)
    setHost(rank, HostState::Running);
  changed_.notify_all();
}

std::string InProcessGroup::name(llvm::function_ref<bool(HostState)> isMissing) const {
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

std::string InProcessGroup::exportAddress(int64_t rank, void *base) {
  Lock lock(mutex_);
  std::string handle = fmt::format("in-process:{}:{}", rank, exports_.size());
  exports_[handle] = {rank, base};
  return handle;
}

Result<void *> InProcessGroup::open(int64_t peer, const std::string &handle) const {
  Lock lock(mutex_);
  auto found = exports_.find(handle);
  if (found == exports_.end() || found->second.rank != peer)
    return Status(StatusCode::BadInput,
                  fmt::format("expected a handle that rank {} exported, got '{}'", peer, handle));
  return found->second.base;
}

// -- Running commands on the hosts' threads. --

bool InProcessGroup::allHostsBlocked() const {
  for (int64_t rank = 0; rank < size(); ++rank)
    if (host(rank) == HostState::Running)
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
    if (released[rank] && host(rank) == HostState::InSynchronize)
      setHost(rank, HostState::Running);
  changed_.notify_all();
}

Status InProcessGroup::blockUntilReleased(int64_t rank) {
  Lock lock(mutex_);
  if (isAborted())
    return failure();
  setHost(rank, HostState::InSynchronize);
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  runIfAllBlocked();
  auto isReleased = [&] { return host(rank) == HostState::Running; };
  auto headline = [&] {
    auto isMissing = [](HostState state) { return state == HostState::Running; };
    return fmt::format("expected all {} ranks in synchronize within {} ms, got no call from {}",
                       size(), timeout_.count(), name(isMissing));
  };
  waitFor(lock, isReleased, headline);
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
