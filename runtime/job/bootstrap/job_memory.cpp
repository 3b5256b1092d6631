//===- runtime/job/bootstrap/job_memory.cpp - the state that a job's ranks on one host share --===//

#include "runtime/job/bootstrap/job_memory.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/futex.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {

namespace {

// The last byte is the version of the memory layout.
constexpr uint64_t kLayoutMagic = 0x4252414944'4a4212;
constexpr int64_t kMaxRanks = 4096;

Status failed(const char *what) {
  return unsupported("cannot create {} for the ranks of a job: {}", what, std::strerror(errno));
}

} // namespace

std::string nameRanks(llvm::ArrayRef<int64_t> ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

uint64_t RankSlot::completed() const {
  uint64_t sum = completedBeyond.load(std::memory_order_relaxed);
  for (const QueueSlot &each : queue)
    sum += each.completed.load(std::memory_order_relaxed);
  return sum;
}

// -- Creation. --

Result<JobMemory> JobMemory::create(int64_t ranks, const HostPlace &place) {
  if (ranks < 1 || ranks > kMaxRanks)
    return badInput("expected 1 to {} ranks in a job, got {}", kMaxRanks, ranks);
  assert(place.hosts >= 1 && ranks % place.hosts == 0 && place.host < place.hosts);
  FileDescriptor descriptor(memfd_create("braid-job", MFD_CLOEXEC));
  if (!descriptor.isValid() ||
      ftruncate(descriptor.get(), static_cast<off_t>(Layout::bytes(ranks))) != 0)
    return failed("shared memory");
  JobMemory memory = BRAID_TRY(mapFile(std::move(descriptor), ranks));
  Layout &layout = *memory.layout_;
  layout.magic = kLayoutMagic;
  if (getrandom(&layout.number, sizeof layout.number, 0) != sizeof layout.number)
    return failed("a random ID");
  layout.ranks = ranks;
  layout.host = place.host;
  layout.hosts = place.hosts;
  layout.outcome.store({.isElsewhere = place.hosts > 1}, std::memory_order_relaxed);
  for (int64_t rank : memory.allRanks())
    for (QueueSlot &queue : memory.slot(rank).queue) {
      queue.current.store(~uint64_t(0), std::memory_order_relaxed);
      queue.lastDone.store(~uint64_t(0), std::memory_order_relaxed);
    }
  return memory;
}

Result<JobMemory> JobMemory::map(FileDescriptor descriptor, int64_t ranks) {
  struct stat info = {};
  const bool isRead = fstat(descriptor.get(), &info) == 0;
  if (ranks < 1 || ranks > kMaxRanks || !isRead ||
      static_cast<size_t>(info.st_size) < Layout::bytes(ranks))
    return badInput("expected the shared memory of a job with {} ranks, got a file of {} bytes",
                    ranks, info.st_size);
  JobMemory memory = BRAID_TRY(mapFile(std::move(descriptor), ranks));
  if (memory.layout_->magic != kLayoutMagic || memory.layout_->ranks != ranks)
    return badInput("expected the shared memory of a job with {} ranks, got that of a job with {} "
                    "ranks or of another version of Braid",
                    ranks, memory.layout_->ranks);
  return memory;
}

/// Maps a file that is large enough for the layout of `ranks` ranks.
Result<JobMemory> JobMemory::mapFile(FileDescriptor descriptor, int64_t ranks) {
  SharedMapping memory = mapShared(descriptor, Layout::bytes(ranks));
  if (!memory)
    return failed("a shared memory mapping");
  return JobMemory(std::move(descriptor), std::move(memory));
}

JobMemory::JobMemory(FileDescriptor descriptor, SharedMapping memory)
    : descriptor_(std::move(descriptor)), memory_(std::move(memory)),
      layout_(static_cast<Layout *>(memory_.get())) {}

uint64_t JobMemory::progress() const {
  uint64_t sum = 0;
  for (int64_t rank : allRanks())
    sum += slot(rank).progress();
  return sum;
}

bool JobMemory::spinUntilAllCome(int64_t rank) {
  constexpr uint32_t kSpinsBeforeYield = 10000;
  RankSlot &own = slot(rank);
  const uint32_t mine = own.barrier.fetch_add(1, std::memory_order_acq_rel) + 1;
  own.tick();
  bool isLong = false;
  for (int64_t other : ranksOf(host()))
    for (uint32_t spins = 0;
         static_cast<int32_t>(slot(other).barrier.load(std::memory_order_acquire) - mine) < 0 &&
         !(spins > kSpinsBeforeYield && isAborted());
         ++spins) {
      if (spins < kSpinsBeforeYield)
        continue;
      if (!std::exchange(isLong, true))
        own.setActivity(HostActivity::InAllGather);
      sched_yield();
    }
  if (isLong)
    own.setActivity(HostActivity::OwnCode);
  return !isAborted();
}

// -- All-gathers. --

Status JobMemory::meet(int64_t rank, const std::string &part, uint32_t step) {
  /// The interval at which a blocked rank checks whether the job has failed.
  constexpr std::chrono::milliseconds kSlice{20};
  BRAID_TRY(failure());
  const uint32_t number = slot(rank).gathers.load(std::memory_order_relaxed) + 1;
  BRAID_TRY(bring(rank, number, part, step));
  for (uint32_t seen; static_cast<int32_t>((seen = gathered()) - number) < 0;) {
    BRAID_TRY(failure());
    abortIfSomebodyHasLeft(number);
    if (!isAborted())
      futexWait(&layout_->gathered, seen, kSlice, FutexScope::Processes);
  }
  return Status::ok();
}

Result<std::vector<std::string>> JobMemory::allGather(int64_t rank, const std::string &part) {
  BRAID_TRY(meet(rank, part, 0));
  return parts(allRanks(), slot(rank).gathers.load(std::memory_order_relaxed));
}

/// Aborts the job if a rank left before joining the all-gather. If a rank died, the host has
/// already aborted the job.
void JobMemory::abortIfSomebodyHasLeft(uint32_t number) {
  std::vector<int64_t> left;
  for (int64_t rank : ranksOf(host()))
    if (slot(rank).state.load(std::memory_order_seq_cst) == RankState::Left &&
        !haveCome({rank, 1}, number))
      left.push_back(rank);
  if (!left.empty())
    abort({peerFailed("{} left the job before the other ranks had finished", nameRanks(left)),
           left.front()});
}

int64_t JobMemory::placeOfPart(int64_t rank, uint32_t number) const {
  constexpr size_t kPage = 4096;
  const size_t begin = (Layout::bytes(ranks()) + kPage - 1) / kPage * kPage;
  return static_cast<int64_t>(begin + (static_cast<size_t>(rank) * 2 + number % 2) * kMaxPart);
}

Status JobMemory::bring(int64_t rank, uint32_t number, const std::string &part, uint32_t step) {
  if (part.size() > kMaxPart)
    return badInput("expected at most {} bytes of all-gather data per rank, got {}", kMaxPart,
                    part.size());
  for (size_t done = 0; done < part.size();) {
    const ssize_t wrote = pwrite(descriptor_.get(), part.data() + done, part.size() - done,
                                 placeOfPart(rank, number) + static_cast<int64_t>(done));
    if (wrote < 0)
      return unsupported("cannot allocate {} bytes for the all-gather data of rank {}: {}",
                         part.size(), rank, std::strerror(errno));
    done += static_cast<size_t>(wrote);
  }
  RankSlot &own = slot(rank);
  RankSlot::Part &mine = own.parts[number % 2];
  mine.bytes.store(part.size(), std::memory_order_relaxed);
  mine.step.store(step, std::memory_order_relaxed);
  // Sequentially consistent, like the loads in haveCome(): if ranks arrive concurrently, the last
  // one in the total order sees that all others have arrived.
  own.gathers.store(number, std::memory_order_seq_cst);
  if (hosts() == 1 && haveCome(allRanks(), number)) {
    finishGather(number);
  } else if (isHere(rank)) {
    layout_->arrivals.fetch_add(1, std::memory_order_release);
    futexWake(&layout_->arrivals, FutexScope::Processes);
  }
  return Status::ok();
}

bool JobMemory::haveCome(Ranks ranks, uint32_t number) const {
  return llvm::all_of(ranks, [&](int64_t rank) {
    return static_cast<int32_t>(slot(rank).gathers.load(std::memory_order_seq_cst) - number) >= 0;
  });
}

/// Commits the step before any rank learns that all ranks have joined.
void JobMemory::finishGather(uint32_t number) {
  const uint32_t step = leastStep(allRanks(), number);
  uint32_t seen = gathered();
  if (static_cast<int32_t>(seen - number) >= 0 || (step != 0 && !commit(step)))
    return;
  while (static_cast<int32_t>(seen - number) < 0 &&
         !layout_->gathered.compare_exchange_weak(seen, number, std::memory_order_acq_rel)) {
  }
  wake();
}

uint32_t JobMemory::leastStep(Ranks ranks, uint32_t number) const {
  uint32_t step = ~0u;
  for (int64_t rank : ranks)
    step = std::min(step, slot(rank).parts[number % 2].step.load(std::memory_order_relaxed));
  return step;
}

Result<std::vector<std::string>> JobMemory::parts(Ranks ranks, uint32_t number) const {
  std::vector<std::string> parts;
  for (int64_t rank : ranks) {
    std::string &part = parts.emplace_back();
    part.resize(std::min<size_t>(slot(rank).parts[number % 2].bytes.load(std::memory_order_relaxed),
                                 kMaxPart));
    if (pread(descriptor_.get(), part.data(), part.size(), placeOfPart(rank, number)) !=
        static_cast<ssize_t>(part.size()))
      return internalError("cannot read the all-gather data of rank {}", rank);
  }
  return parts;
}

void JobMemory::waitForRanks(uint32_t number, std::chrono::milliseconds slice) const {
  const uint32_t seen = layout_->arrivals.load(std::memory_order_acquire);
  if (!haveCome(ranksOf(host()), number))
    futexWait(&layout_->arrivals, seen, slice, FutexScope::Processes);
}

void JobMemory::wake() {
  futexWake(&layout_->gathered, FutexScope::Processes);
  futexWake(&layout_->arrivals, FutexScope::Processes);
}

// -- The choice. --

void JobMemory::publishChoice(const std::string &text) {
  if (text.size() > Layout::kChoiceBytes)
    return;
  std::memcpy(layout_->choice, text.data(), text.size());
  layout_->choiceLength.store(static_cast<uint32_t>(text.size()), std::memory_order_release);
}

std::string JobMemory::choice() const {
  return {layout_->choice,
          std::min(layout_->choiceLength.load(std::memory_order_acquire), Layout::kChoiceBytes)};
}

// -- The outcome. --

uint16_t JobMemory::writeCause(const JobCause &cause) {
  assert(!cause.status.isOk() && "an abort needs a failure");
  const auto number = static_cast<uint16_t>(std::min<uint32_t>(
      layout_->causesTaken.fetch_add(1, std::memory_order_relaxed), Layout::kCauseSlots));
  if (number == Layout::kCauseSlots)
    return number;
  Layout::Cause &mine = layout_->causes[number];
  const std::string &text = cause.status.message();
  mine.rank = cause.rank;
  mine.code = static_cast<int32_t>(cause.status.code());
  mine.length = static_cast<uint32_t>(std::min(text.size(), sizeof mine.text));
  std::memcpy(mine.text, text.data(), mine.length);
  return number;
}

JobCause JobMemory::readCause(uint16_t number) const {
  if (number >= Layout::kCauseSlots)
    return JobCause{
        peerFailed("too many ranks failed at once, so the first failure was not recorded"), -1};
  const Layout::Cause &slot = layout_->causes[number];
  const size_t length = std::min<size_t>(slot.length, sizeof slot.text);
  const int64_t rank = slot.rank >= 0 && slot.rank < ranks() ? slot.rank : -1;
  return JobCause{Status(failureOfCode(slot.code).value_or(StatusCode::Internal),
                         std::string(slot.text, length)),
                  rank};
}

/// Applies `change` to the current outcome until the result is stored or `change` returns false.
void JobMemory::changeOutcome(llvm::function_ref<bool(Outcome &outcome)> change) {
  Outcome seen = layout_->outcome.load(std::memory_order_acquire), wanted = seen;
  while (change(wanted) && !layout_->outcome.compare_exchange_weak(
                               seen, wanted, std::memory_order_seq_cst, std::memory_order_acquire))
    wanted = seen;
}

/// The text is complete before a single compare-and-swap makes the outcome refer to it, so a
/// process that dies cannot leave an abort half done: before the compare-and-swap, another process
/// may still abort the job; after it, the cause is visible to all.
bool JobMemory::abort(const JobCause &cause) {
  if (layout_->outcome.load(std::memory_order_relaxed).state != Outcome::Open)
    return false;
  const uint16_t number = writeCause(cause);
  bool isFirst = false;
  changeOutcome([&](Outcome &outcome) {
    isFirst = outcome.state == Outcome::Open;
    outcome.state = outcome.isElsewhere ? Outcome::Proposed : Outcome::Aborted;
    outcome.cause = number;
    return isFirst;
  });
  return isFirst;
}

void JobMemory::abortDecided(const JobCause &cause) {
  const uint16_t number = writeCause(cause);
  changeOutcome([&](Outcome &outcome) {
    const bool isUndecided = outcome.state != Outcome::Aborted;
    outcome = {.committed = outcome.committed, .cause = number, .state = Outcome::Aborted};
    return isUndecided;
  });
}

/// A concurrent proposal makes the compare-and-swap fail, so it cannot be missed.
void JobMemory::decideHere() {
  changeOutcome([](Outcome &outcome) {
    if (outcome.state == Outcome::Proposed)
      outcome.state = Outcome::Aborted;
    return std::exchange(outcome.isElsewhere, false);
  });
}

/// As long as host 0 is reachable, it may still commit a step, so no other host may decide yet.
/// While host 0 is silent, the round-trip time grows until the thread that polls the store decides.
void JobMemory::awaitDecision(std::chrono::milliseconds patience) {
  const auto start = std::chrono::steady_clock::now();
  while (proposal())
    if (std::chrono::steady_clock::now() - start >=
        patience + std::chrono::nanoseconds(roundTripNs()))
      decideHere();
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::optional<JobCause> JobMemory::causeIn(Outcome::State state) const {
  const Outcome seen = layout_->outcome.load(std::memory_order_acquire);
  return seen.state == state ? std::optional(readCause(seen.cause)) : std::nullopt;
}

Status JobMemory::failure() const {
  const std::optional<JobCause> first = cause();
  return first ? first->status : Status::ok();
}

Status JobMemory::fail(const JobCause &cause) {
  abort(cause);
  awaitDecision();
  return failure();
}

bool JobMemory::commit(uint32_t step) {
  changeOutcome([&](Outcome &outcome) {
    const bool isNext = outcome.committed < step && outcome.state != Outcome::Aborted;
    outcome.committed = step;
    return isNext;
  });
  return committed() >= step;
}

} // namespace braid
