//===- runtime/job/process_group.cpp - a rank that is a process -------------------------------===//

#include "runtime/job/process_group.h"
#include "ir/failure.h"

#include "runtime/job/bootstrap/futex.h"
#include "runtime/job/calls.h"
#include "runtime/job/host_memory.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {

namespace {

using std::chrono::milliseconds;

/// The last signals of a rank that has left become visible within this time.
constexpr milliseconds kAfterLeaving{1000};
/// A proposed abort is decided within this time plus the network's round-trip time.
constexpr milliseconds kForDecision{1000};
/// Blocks are page-aligned, because the kernel frees and GPU drivers register only whole pages.
const size_t kPage = std::max<size_t>(4096, static_cast<size_t>(sysconf(_SC_PAGESIZE)));

/// The kernel overcommits shared memory and kills processes when memory runs out, so a request that
/// exceeds physical memory must fail here.
bool fitsThisMachine(size_t bytes) {
  long pages = sysconf(_SC_PHYS_PAGES), pageBytes = sysconf(_SC_PAGESIZE);
  return pages <= 0 || pageBytes <= 0 || bytes / static_cast<size_t>(pageBytes) < size_t(pages);
}

} // namespace

// -- Called by the host thread. --

ProcessGroup::ProcessGroup(std::unique_ptr<Client> client, milliseconds timeout)
    : RankGroup(client->memory(), timeout, {client->rank(), 1}, /*areThreads=*/false),
      client_(std::move(client)), pool_(kPage) {}

// -- Shared memory. --

Result<ProcessGroup::Region> ProcessGroup::makeRegion(size_t bytes) const {
  FileDescriptor descriptor(memfd_create("braid-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.isValid() || ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return outOfMemory(rank(), static_cast<int64_t>(bytes));
  SharedMapping address = BRAID_TRY(mapSealed(descriptor, bytes));
  return Region{std::move(descriptor), std::move(address), bytes};
}

Result<SharedMapping> ProcessGroup::mapSealed(const FileDescriptor &descriptor,
                                              size_t bytes) const {
  struct stat info;
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (fstat(descriptor.get(), &info) != 0 || static_cast<size_t>(info.st_size) != bytes ||
      seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return badInput("expected sealed shared memory of {} bytes, got a different file", bytes);
  SharedMapping address = mapShared(descriptor, bytes);
  if (!address)
    return outOfMemory(rank(), static_cast<int64_t>(bytes));
  return address;
}

/// Adds a region of at least `bytes` bytes. Doubles the total size if possible, because peers map
/// each region once and regions are never freed.
Status ProcessGroup::addRegion(size_t bytes) {
  size_t wanted = size_t(4) << 20;
  for (const Region &region : own_)
    wanted += region.bytes;
  Result<Region> made = makeRegion(std::bit_ceil(std::max(wanted, bytes)));
  if (!made)
    made = makeRegion(bytes);
  own_.push_back(BRAID_TRY(std::move(made)));
  pool_.add(own_.back().address.get(), own_.back().bytes);
  return Status::ok();
}

/// Allocates the pages immediately, because no later call could report a lack of memory. New pages
/// are zeroed.
Result<void *> ProcessGroup::allocateSymmetric(int64_t bytes) {
  const size_t wanted = roundedBytes(bytes), size = (wanted + kPage - 1) / kPage * kPage;
  if (size == 0 || !fitsThisMachine(pool_.blockBytes() + size))
    return outOfMemory(rank(), bytes);
  void *address = pool_.allocate(size);
  if (!address) {
    BRAID_TRY(addRegion(size));
    address = pool_.allocate(size);
  }
  const BlockPool::Block block = *pool_.find(address);
  if (fallocate(own_[block.region].descriptor.get(), 0, static_cast<off_t>(block.offset),
                static_cast<off_t>(block.bytes)) == 0)
    return address;
  pool_.release(address);
  return outOfMemory(rank(), bytes);
}

/// The kernel frees the pages in all processes that map them; the addresses remain reserved.
void ProcessGroup::recycleSymmetric() {
  for (const BlockPool::Memory &memory : pool_.recycle())
    if (madvise(memory.address, memory.bytes, MADV_REMOVE) != 0)
      std::memset(memory.address, 0,
                  memory.bytes); // fallback: the next allocation expects zeros
}

Result<std::string> ProcessGroup::exportMemory(void *base) {
  const std::optional<BlockPool::Block> block = pool_.find(base);
  if (!block)
    return noSymmetricMemory(rank());
  Region &region = own_[block->region];
  if (!region.isOffered)
    BRAID_TRY(client_->offer(std::to_string(block->region), region.descriptor.get()));
  region.isOffered = true;
  return fmt::format("shared:{}:{}:{}:{}", rank(), block->region, region.bytes, block->offset);
}

Result<void *> ProcessGroup::open(int64_t peer, const std::string &handle) {
  int64_t exporter = -1;
  uint32_t number = 0;
  size_t bytes = 0, offset = 0;
  llvm::SmallVector<llvm::StringRef, 5> fields;
  llvm::StringRef(handle).split(fields, ':');
  if (fields.size() != 5 || fields[0] != "shared" || fields[1].getAsInteger(10, exporter) ||
      fields[2].getAsInteger(10, number) || fields[3].getAsInteger(10, bytes) ||
      fields[4].getAsInteger(10, offset) || offset >= bytes || exporter != peer || peer < 0 ||
      peer >= size())
    return badInput("expected a handle that rank {} exported, got '{}'", peer, handle);
  void *base = peer == rank() && number < own_.size() ? own_[number].address.get()
                                                      : BRAID_TRY(import(peer, number, bytes));
  return static_cast<char *>(base) + offset;
}

Result<void *> ProcessGroup::import(int64_t peer, uint32_t number, size_t bytes) {
  SharedMapping &known = imports_[{peer, number}];
  if (!known) {
    const FileDescriptor descriptor = BRAID_TRY(want(peer, std::to_string(number)));
    Result<SharedMapping> mapping = mapSealed(descriptor, bytes);
    if (!mapping)
      return mapping.status().annotated(fmt::format("memory shared by rank {}", peer));
    known = std::move(*mapping);
  }
  return known.get();
}

// -- Shutdown. --

/// Each rank records in the job memory that it has closed, because the host process may be gone.
/// The wait for peers is bounded, because a peer may never call close(). Mapped shared memory
/// outlives the rank that exported it.
bool ProcessGroup::close(AfterAbort afterAbort) {
  imports_.clear();
  isClosing_.store(true, std::memory_order_relaxed);
  slot().closed.store(1, std::memory_order_release);
  futexWake(&slot().closed, FutexScope::Processes);
  const uint64_t giveUp = monotonicNs() + inNs(std::min(timeout(), milliseconds(2000)));
  bool areAllGone = true;
  for (int64_t peer = 0; peer < size(); ++peer) {
    RankSlot &other = memory().slot(peer);
    if (!memory().isHere(peer))
      continue; // a rank on another host cannot map this memory
    auto isGone = [&] {
      return other.closed.load(std::memory_order_acquire) != 0 ||
             memory().stateOf(peer) == RankState::Left || memory().stateOf(peer) == RankState::Dead;
    };
    // A killed rank never sets `closed`, but may keep memory mapped until its process has exited.
    while (!isGone() && other.isKilled.load(std::memory_order_relaxed) == 0 &&
           (afterAbort == AfterAbort::Waits || !isAborted()) && monotonicNs() < giveUp)
      futexWait(&other.closed, 0, milliseconds(20), FutexScope::Processes);
    areAllGone &= isGone();
  }
  stop();
  return areAllGone;
}

void ProcessGroup::leave() {
  stop();
  client_->disconnect();
}

// -- The watchdog. --

/// If there are several hosts, only proposes an abort: the watchdog must not wait for the decision,
/// because it also runs watchProposal().
void ProcessGroup::watchRank() {
  if (Status status = probe_ ? probe_() : Status::ok(); !status.isOk())
    memory().abort({std::move(status), rank()});
  if (isAborted())
    return;
  watchHost();
  watchCalls();
  watchWaits();
  watchProposal();
}

/// Aborts the job if the host process exits before the first commit or while this rank is busy.
void ProcessGroup::watchHost() {
  if (isClosing_.load(std::memory_order_relaxed) || !client_->isHostGone())
    return;
  const bool isIdle = slot().issued.load(std::memory_order_relaxed) <= slot().completed() &&
                      slot().activity.load(std::memory_order_relaxed) == HostActivity::OwnCode;
  if (memory().committed() == 0 || !isIdle)
    client_->abortIfHostIsGone();
}

/// Lets this host decide the outcome on its own if the process that accesses the store takes too
/// long or is suspended.
void ProcessGroup::watchProposal() {
  const uint64_t now = monotonicNs();
  if (!memory().proposal())
    proposedNs_ = 0;
  else if (proposedNs_ == 0)
    proposedNs_ = now;
  else if (now - proposedNs_ >= inNs(kForDecision) + memory().roundTripNs())
    memory().decideHere();
}

void ProcessGroup::watchCalls() {
  std::lock_guard lock(plans_.mutex);
  const std::string what = describeDisagreement(memory(), plans_, rank());
  if (!what.empty())
    memory().abort({Status(StatusCode::PeerFailed, what), -1});
}

/// Aborts the job if a queue waits for a rank that left so long ago that its last signals must be
/// visible.
void ProcessGroup::watchWaits() {
  std::lock_guard lock(plans_.mutex);
  const uint64_t now = monotonicNs();
  const uint32_t queues = std::min(slot().queues.load(std::memory_order_relaxed), kQueueSlots);
  for (uint32_t i = 0; i < queues; ++i) {
    const QueueView queue = viewOf(slot().queue[i]);
    const Endpoint *awaited =
        queue.isWaiting
            ? endpointAwaitedIn(plans_.find(rank(), queue.current->command), *queue.current)
            : nullptr;
    if (!awaited || memory().slot(awaited->peer).state.load() != RankState::Left)
      peerLeftNs_[i] = 0;
    else if (peerLeftNs_[i] == 0)
      peerLeftNs_[i] = now;
    else if (now >= std::max(peerLeftNs_[i], queue.sinceNs) + inNs(kAfterLeaving))
      memory().abort({peerFailed("rank {} has left the job, but {}", awaited->peer,
                                 JobView(memory(), plans_).activityText(rank(), &queue)),
                      awaited->peer});
  }
}

} // namespace braid
