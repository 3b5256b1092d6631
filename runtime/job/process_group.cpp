//===- runtime/job/process_group.cpp - a rank that is a process -------------------------------===//

#include "runtime/job/process_group.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "runtime/job/bootstrap/futex.h"
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
/// Blocks are aligned to pages: the kernel frees whole pages, and GPU drivers register them.
const size_t kPage = std::max<size_t>(4096, static_cast<size_t>(sysconf(_SC_PAGESIZE)));

/// The kernel overcommits shared memory and kills processes when it runs out, so a request that
/// exceeds the physical memory fails here.
bool fitsThisMachine(size_t bytes) {
  long pages = sysconf(_SC_PHYS_PAGES), pageBytes = sysconf(_SC_PAGESIZE);
  return pages <= 0 || pageBytes <= 0 || bytes / static_cast<size_t>(pageBytes) < size_t(pages);
}

} // namespace

// -- The host thread's calls. --

ProcessGroup::ProcessGroup(std::unique_ptr<Client> client, milliseconds timeout)
    : RankGroup(client->memory(), boundedTime(timeout)), client_(std::move(client)),
      period_(watchPeriod(timeout)), pool_(kPage), stallRule_(RankGroup::timeout(), period_) {}

ProcessGroup::~ProcessGroup() {
  for (auto &[key, mapping] : imports_)
    munmap(mapping.address, mapping.bytes);
  for (Mapping &mapping : own_)
    munmap(mapping.address, mapping.bytes);
  leave();
}

Status ProcessGroup::start() {
  setActivity(HostActivity::OwnCode);
  const Status started = startThread(watchdog_, "a watchdog", [this] { watch(); });
  return started.isOk() ? started : client_->fail(started);
}

void ProcessGroup::setActivity(HostActivity activity) {
  slot().setActivity(activity);
  tick();
}

void ProcessGroup::tick() { slot().arrivals.fetch_add(1, std::memory_order_relaxed); }

void ProcessGroup::abort(const Status &cause) {
  memory().abort({cause, rank()});
  memory().awaitDecision();
  wakeOthers();
}

Result<std::vector<std::string>> ProcessGroup::allGather(std::string mine) {
  const auto activity = doing(HostActivity::InAllGather);
  if (isAborted())
    return failure();
  Result<std::vector<std::string>> texts = client_->allGather(mine);
  if (texts)
    return texts;
  // The other ranks wait for this one, so it reports the failure, which may itself be an abort.
  abort(texts.status());
  return failure();
}

/// A single atomic in the job memory decides between a commit and an abort. A rank that knows that
/// all ranks have arrived commits for all of them before it notifies any; a failure anywhere
/// aborts. The first of the two takes effect, and each rank reads the atomic last. With several
/// hosts, their store decides; see runtime/job/bootstrap/other_hosts.h. If a rank is killed after
/// the commit, the step still counts for all others.
Status ProcessGroup::commit() {
  const auto activity = doing(HostActivity::Committing);
  const uint32_t step = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  return committed(step, client_->meetAtCommit(step));
}

Status ProcessGroup::waitForDevice(int64_t, Drain drain) {
  const auto activity = doing(HostActivity::InSynchronize);
  std::optional<uint64_t> giveUp;
  while (!drain.isDone()) {
    if (isAborted() && !giveUp)
      giveUp = monotonicNs() + (isStuck_ ? 0 : inNs(kGrace));
    if (giveUp && monotonicNs() >= *giveUp) {
      isStuck_ = true;
      Status cause = failure();
      return Status(cause.code(),
                    fmt::format("{}\n  rank {} has a command that does not end; its buffers may "
                                "still be in use",
                                cause.message(), rank()));
    }
    drain.sleep(slice());
  }
  return failure();
}

// -- Shared memory. --

/// Reserves addresses without allocating pages.
Result<ProcessGroup::Mapping> ProcessGroup::makeShared(size_t bytes) const {
  FileDescriptor descriptor(memfd_create("braid-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.isValid() || ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return outOfMemory(rank(), static_cast<int64_t>(bytes));
  return mapShared(std::move(descriptor), bytes);
}

Result<ProcessGroup::Mapping> ProcessGroup::mapShared(FileDescriptor descriptor,
                                                      size_t bytes) const {
  struct stat info;
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (fstat(descriptor.get(), &info) != 0 || static_cast<size_t>(info.st_size) != bytes ||
      seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return badInput("expected {} bytes of shared memory that cannot shrink", bytes);
  void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED)
    return outOfMemory(rank(), static_cast<int64_t>(bytes));
  Mapping mapping;
  mapping.descriptor = std::move(descriptor);
  mapping.address = address;
  mapping.bytes = bytes;
  return mapping;
}

/// Adds a region for at least `bytes`, and if possible doubles the total: peers map each region
/// once, and regions are never freed.
Status ProcessGroup::addRegion(size_t bytes) {
  size_t wanted = size_t(4) << 20;
  for (const Mapping &region : own_)
    wanted += region.bytes;
  Result<Mapping> made = makeShared(std::bit_ceil(std::max(wanted, bytes)));
  if (!made)
    made = makeShared(bytes);
  own_.push_back(BRAID_TRY(std::move(made)));
  pool_.add(own_.back().address, own_.back().bytes);
  return Status::ok();
}

/// Allocates the pages immediately, because no later call could report a lack of memory. New pages
/// are zero.
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

/// The kernel frees the pages for all processes that map them; the addresses remain reserved.
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
  Mapping &mapping = own_[block->region];
  if (!mapping.isOffered)
    BRAID_TRY(client_->offer(std::to_string(block->region), mapping.descriptor.get()));
  mapping.isOffered = true;
  return fmt::format("shared:{}:{}:{}:{}", rank(), block->region, mapping.bytes, block->offset);
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
  void *base = peer == rank() && number < own_.size() ? own_[number].address
                                                      : BRAID_TRY(import(peer, number, bytes));
  return static_cast<char *>(base) + offset;
}

Result<FileDescriptor> ProcessGroup::want(int64_t peer, const std::string &name) {
  return client_->want(peer, name);
}

Result<void *> ProcessGroup::import(int64_t peer, uint32_t number, size_t bytes) {
  auto known = imports_.find({peer, number});
  if (known != imports_.end())
    return known->second.address;
  FileDescriptor descriptor = BRAID_TRY(want(peer, std::to_string(number)));
  Result<Mapping> mapping = mapShared(std::move(descriptor), bytes);
  if (!mapping)
    return mapping.status().annotated(fmt::format("what rank {} shares", peer));
  mapping->descriptor.reset();
  return imports_.emplace(std::pair(peer, number), std::move(*mapping)).first->second.address;
}

// -- The end. --

/// Ranks announce in the job memory that they have closed, because the host may be gone. The wait
/// is bounded because a peer may never close. Mapped shared memory outlives the rank that exported
/// it.
bool ProcessGroup::close(AfterAbort afterAbort) {
  for (auto &[key, mapping] : imports_)
    munmap(mapping.address, mapping.bytes);
  imports_.clear();
  isClosing_.store(true, std::memory_order_relaxed);
  slot().closed.store(1, std::memory_order_release);
  futexWake(&slot().closed, FutexScope::Processes);
  const uint64_t giveUp = monotonicNs() + inNs(std::min(timeout(), milliseconds(2000)));
  const bool waitsOn = afterAbort == AfterAbort::Waits;
  bool areAllGone = true;
  for (int64_t peer = 0; peer < size(); ++peer) {
    RankSlot &other = memory().slot(peer);
    if (!memory().isHere(peer))
      continue; // a rank of another host cannot have mapped anything
    auto isGone = [&] {
      const RankState state = other.state.load(std::memory_order_relaxed);
      return other.closed.load(std::memory_order_acquire) != 0 || state == RankState::Left ||
             state == RankState::Dead;
    };
    // A killed rank never closes, and it may keep memory mapped until its process has exited.
    auto isAwaited = [&] {
      return !isGone() && other.isKilled.load(std::memory_order_relaxed) == 0;
    };
    while (isAwaited() && (waitsOn || !isAborted()) && monotonicNs() < giveUp)
      futexWait(&other.closed, 0, milliseconds(20), FutexScope::Processes);
    areAllGone &= isGone();
  }
  endWatchdog();
  return areAllGone;
}

void ProcessGroup::endWatchdog() {
  {
    std::lock_guard lock(endMutex_);
    isEnding_ = true;
  }
  endChanged_.notify_all();
  if (watchdog_.joinable())
    watchdog_.join();
}

void ProcessGroup::leave() {
  endWatchdog();
  client_->disconnect();
}

// -- The watchdog. It allocates no memory unless it has something to report. --

void ProcessGroup::watch() {
  std::unique_lock lock(endMutex_);
  while (!isEnding_) {
    lock.unlock();
    slot().heartbeatNs.store(monotonicNs(), std::memory_order_relaxed);
    watchDevice();
    if (!isAborted()) {
      watchHost();
      watchStall();
      watchCalls();
      watchWaits();
      watchProposal();
    }
    if (isAborted())
      wakeOthers(); // repeated, because a thread may have missed the last notification
    lock.lock();
    endChanged_.wait_for(lock, period_, [this] { return isEnding_; });
  }
}

/// This only proposes an abort if there are several hosts. The watchdog must not wait for the
/// decision, because it also runs watchProposal().
void ProcessGroup::watchDevice() {
  if (Status status = probe_ ? probe_() : Status::ok(); !status.isOk())
    memory().abort({std::move(status), rank()});
}

/// It is no failure if the host exits when all work is done, unless a step has been started since.
void ProcessGroup::watchHost() {
  if (isClosing_.load(std::memory_order_relaxed) || !client_->isHostGone())
    return;
  const uint32_t steps = steps_.load(std::memory_order_relaxed);
  const bool isIdle = slot().issued.load(std::memory_order_relaxed) <= slot().completed() &&
                      slot().activity.load(std::memory_order_relaxed) == HostActivity::OwnCode;
  if (steps != 0 && memory().committed() >= steps && isIdle)
    return;
  memory().abort(client_->hostIsGone());
  memory().decideHere(); // no other process is left to ask the store
}

/// Decides here if the process that talks to the store is too late: it may be stopped.
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
  std::lock_guard lock(plansMutex_);
  const std::string what = describeDisagreement(memory(), plans_, rank());
  if (!what.empty())
    memory().abort({Status(StatusCode::PeerFailed, what), -1});
}

void ProcessGroup::watchStall() {
  bool isBlocked = slot().activity.load(std::memory_order_relaxed) != HostActivity::OwnCode;
  uint64_t since = slot().activitySinceNs.load(std::memory_order_relaxed);
  // The host may wait outside Braid for the result that the device waits for.
  const uint32_t queues = std::min(slot().queues.load(std::memory_order_relaxed), kQueueSlots);
  for (uint32_t i = 0; i < queues && !isBlocked; ++i)
    if (const QueueSlot &queue = slot().queue[i];
        queue.isWaiting.load(std::memory_order_relaxed) != 0) {
      isBlocked = true;
      since = queue.sinceNs.load(std::memory_order_relaxed);
    }
  if (isClosing_.load(std::memory_order_relaxed) ||
      !stallRule_.isStalled(monotonicNs(), memory().progress(), isBlocked, since,
                            memory().roundTripNs()))
    return;
  std::lock_guard lock(plansMutex_);
  memory().abort(stallCause(memory(), plans_, timeout()));
}

/// A rank that has left sends no further signals, but its last ones may still be in flight.
void ProcessGroup::watchWaits() {
  std::lock_guard lock(plansMutex_);
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
      memory().abort({peerFailed("rank {} has left the job: {}", awaited->peer,
                                 JobView(memory(), plans_).activityText(rank(), &queue)),
                      awaited->peer});
  }
}

} // namespace braid
