//===- runtime/job/bootstrap/job_memory.cpp - the state that a host's ranks of a job share ----===//

#include "runtime/job/bootstrap/job_memory.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/futex.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {

namespace {

// The last byte is the version of the memory layout.
constexpr uint64_t kLayoutMagic = 0x4252414944'4a4210;
constexpr int64_t kMaxRanks = 4096;
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK; // it may grow for the parts of all-gathers

// The bits of the outcome, from the lowest: committed steps, the marks below, the number of the
// cause.
constexpr uint64_t kAbortedMark = uint64_t(1) << 32;
constexpr uint64_t kProposedMark = uint64_t(1) << 33;
constexpr uint64_t kElsewhereMark = uint64_t(1) << 34; ///< the hosts' store decides
constexpr int kCauseShift = 40;
constexpr uint64_t kMarks = (uint64_t(1) << kCauseShift) - (uint64_t(1) << 32);
constexpr bool isAbortedOutcome(uint64_t outcome) { return (outcome & kAbortedMark) != 0; }
constexpr uint32_t committedIn(uint64_t outcome) { return static_cast<uint32_t>(outcome); }
constexpr uint32_t causeIn(uint64_t outcome) {
  return static_cast<uint32_t>(outcome >> kCauseShift);
}

/// The text of one failure. Written before its number is visible to any process, and then constant.
struct CauseSlot {
  int64_t rank;
  int32_t code;
  uint32_t length;
  char text[16368];
};

// The number of failures that can be recorded concurrently; only one of them becomes the first.
// Pages that are not written use no memory.
constexpr uint32_t kCauseSlots = 256;

constexpr uint32_t kChoiceBytes = 4096;

Status failed(const char *what) {
  return unsupported("expected {} for the ranks of a job, got '{}'", what, std::strerror(errno));
}

} // namespace

/// The start of the memory; the slots of the ranks follow.
struct JobMemory::Layout {
  uint64_t magic;
  uint64_t number;
  int64_t ranks;
  int64_t host, hosts;
  std::atomic<uint64_t> roundTripNs;
  alignas(64) std::atomic<uint64_t> outcome;
  alignas(64) std::atomic<uint32_t> causesTaken;
  alignas(64) CauseSlot causes[kCauseSlots];
  std::atomic<uint32_t> arrivals;     ///< futex; counts the arrivals of all ranks
  std::atomic<uint32_t> gathered;     ///< futex; number of the last finished all-gather
  std::atomic<uint32_t> choiceLength; ///< written after the text
  char choice[kChoiceBytes];

  static size_t bytes(int64_t ranks) {
    return sizeof(Layout) + static_cast<size_t>(ranks) * sizeof(RankSlot);
  }
  RankSlot *slots() { return reinterpret_cast<RankSlot *>(this + 1); }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
                  std::atomic<uint32_t>::is_always_lock_free,
              "locks of one process mean nothing to another one");

uint64_t monotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

uint64_t RankSlot::completed() const {
  uint64_t sum = completedBeyond.load(std::memory_order_relaxed);
  for (const QueueSlot &each : queue)
    sum += each.completed.load(std::memory_order_relaxed);
  return sum;
}

uint64_t RankSlot::progress() const {
  return issued.load(std::memory_order_relaxed) + arrivals.load(std::memory_order_relaxed) +
         completed();
}

void RankSlot::setActivity(HostActivity now) {
  activitySinceNs.store(monotonicNs(), std::memory_order_relaxed);
  activity.store(now, std::memory_order_relaxed);
}

// -- Creation. --

Result<JobMemory> JobMemory::create(int64_t ranks, const HostPlace &place) {
  if (ranks < 1 || ranks > kMaxRanks)
    return badInput("expected 1 to {} ranks in a job, got {}", kMaxRanks, ranks);
  assert(place.hosts >= 1 && ranks % place.hosts == 0 && place.host < place.hosts);
  FileDescriptor descriptor(memfd_create("braid-job", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.isValid())
    return failed("shared memory");
  const size_t bytes = Layout::bytes(ranks);
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0)
    return failed("shared memory");
  if (fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0)
    return failed("shared memory that can be sealed");
  void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED)
    return failed("addresses of shared memory");
  JobMemory memory(std::move(descriptor), address, bytes);
  memory.layout_->magic = kLayoutMagic;
  if (getrandom(&memory.layout_->number, sizeof Layout::number, 0) != sizeof Layout::number)
    return failed("a random number");
  memory.layout_->ranks = ranks;
  memory.layout_->host = place.host;
  memory.layout_->hosts = place.hosts;
  if (place.hosts > 1)
    memory.layout_->outcome.store(kElsewhereMark, std::memory_order_relaxed);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (QueueSlot &queue : memory.slot(rank).queue) {
      queue.current.store(~uint64_t(0), std::memory_order_relaxed);
      queue.lastDone.store(~uint64_t(0), std::memory_order_relaxed);
    }
  return memory;
}

Result<JobMemory> JobMemory::map(FileDescriptor descriptor, int64_t ranks) {
  auto refuse = [](std::string got) {
    return badInput("expected the memory of a job, got {}", std::move(got));
  };
  if (ranks < 1 || ranks > kMaxRanks)
    return refuse(fmt::format("{} ranks", ranks));
  const size_t bytes = Layout::bytes(ranks);
  struct stat info;
  if (fstat(descriptor.get(), &info) != 0)
    return refuse("no open file");
  // If another process could shrink the file, any access here could raise SIGBUS.
  int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return refuse("a file that can shrink");
  if (static_cast<size_t>(info.st_size) < bytes)
    return refuse(fmt::format("{} bytes instead of {}", info.st_size, bytes));
  void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED)
    return failed("addresses of shared memory");
  JobMemory memory(std::move(descriptor), address, bytes);
  if (memory.layout_->magic != kLayoutMagic)
    return refuse("one of another version");
  if (memory.layout_->ranks != ranks)
    return refuse(fmt::format("one for {} ranks instead of {}", memory.layout_->ranks, ranks));
  if (memory.layout_->hosts < 1 || ranks % memory.layout_->hosts != 0 || memory.layout_->host < 0 ||
      memory.layout_->host >= memory.layout_->hosts)
    return refuse(fmt::format("one of host {} of {}", memory.layout_->host, memory.layout_->hosts));
  return memory;
}

JobMemory::JobMemory(FileDescriptor descriptor, void *address, size_t bytes)
    : descriptor_(std::move(descriptor)), layout_(static_cast<Layout *>(address)), bytes_(bytes) {}

JobMemory::JobMemory(JobMemory &&other) noexcept
    : descriptor_(std::move(other.descriptor_)), layout_(other.layout_), bytes_(other.bytes_) {
  other.layout_ = nullptr;
}

JobMemory::~JobMemory() {
  if (layout_)
    munmap(layout_, bytes_);
}

uint64_t JobMemory::number() const { return layout_->number; }
int64_t JobMemory::ranks() const { return layout_->ranks; }

RankSlot &JobMemory::slot(int64_t rank) {
  assert(rank >= 0 && rank < ranks());
  return layout_->slots()[rank];
}

const RankSlot &JobMemory::slot(int64_t rank) const {
  assert(rank >= 0 && rank < ranks());
  return layout_->slots()[rank];
}

uint64_t JobMemory::progress() const {
  uint64_t sum = 0;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    sum += slot(rank).progress();
  return sum;
}

// -- Hosts. --

int64_t JobMemory::hosts() const { return layout_->hosts; }

HostPlace JobMemory::place() const { return {host(), hosts()}; }

int64_t JobMemory::host() const { return layout_->host; }

bool JobMemory::isHere(int64_t rank) const { return rank / ranksPerHost() == host(); }

uint64_t JobMemory::roundTripNs() const {
  return layout_->roundTripNs.load(std::memory_order_relaxed);
}

void JobMemory::setRoundTripNs(uint64_t time) {
  layout_->roundTripNs.store(time, std::memory_order_relaxed);
}

bool JobMemory::spinUntilAllCome(int64_t rank) {
  constexpr uint32_t kSpinsBeforeYield = 10000;
  RankSlot &own = slot(rank);
  const uint32_t mine = own.barrier.fetch_add(1, std::memory_order_acq_rel) + 1;
  own.arrivals.fetch_add(1, std::memory_order_relaxed);
  bool isLong = false;
  const int64_t first = host() * ranksPerHost();
  for (int64_t other = first; other < first + ranksPerHost(); ++other)
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

namespace {

/// Writes all of `text`. Returns an error code, or 0.
int writeAt(int file, const std::string &text, int64_t at) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = pwrite(file, text.data() + done, text.size() - done,
                                 static_cast<off_t>(at + static_cast<int64_t>(done)));
    if (wrote < 0 && errno != EINTR)
      return errno;
    done += static_cast<size_t>(std::max<ssize_t>(wrote, 0));
  }
  return 0;
}

bool readAt(int file, std::string &text, int64_t at) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t got = pread(file, text.data() + done, text.size() - done,
                              static_cast<off_t>(at + static_cast<int64_t>(done)));
    if (got == 0 || (got < 0 && errno != EINTR))
      return false;
    done += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return true;
}

} // namespace

int64_t JobMemory::placeOfPart(int64_t rank, uint32_t number) const {
  constexpr size_t kPage = 4096;
  const size_t begin = (bytes_ + kPage - 1) / kPage * kPage;
  return static_cast<int64_t>(begin + (static_cast<size_t>(rank) * 2 + number % 2) * kMaxPart);
}

Status JobMemory::bring(int64_t rank, uint32_t number, const std::string &part, uint32_t step) {
  if (part.size() > kMaxPart)
    return badInput("expected at most {} bytes for the other ranks, got {}", kMaxPart, part.size());
  RankSlot &own = slot(rank);
  const int error = writeAt(descriptor_.get(), part, placeOfPart(rank, number));
  if (error != 0)
    return unsupported("expected memory for {} bytes that rank {} says to the others, got '{}'",
                       part.size(), rank, std::strerror(error));
  RankSlot::Part &mine = own.parts[number % 2];
  mine.bytes.store(part.size(), std::memory_order_relaxed);
  mine.step.store(step, std::memory_order_relaxed);
  // Sequentially consistent, like the loads in haveCome(): if ranks arrive concurrently, the last
  // one in that order sees all others.
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
  for (int64_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank)
    if (static_cast<int32_t>(slot(rank).gathers.load(std::memory_order_seq_cst) - number) < 0)
      return false;
  return true;
}

/// The step is committed before any rank learns that all ranks have joined.
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

uint32_t JobMemory::gathered() const { return layout_->gathered.load(std::memory_order_acquire); }

uint32_t JobMemory::leastStep(Ranks ranks, uint32_t number) const {
  uint32_t step = ~0u;
  for (int64_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank)
    step = std::min(step, slot(rank).parts[number % 2].step.load(std::memory_order_relaxed));
  return step;
}

Result<std::vector<std::string>> JobMemory::parts(Ranks ranks, uint32_t number) const {
  std::vector<std::string> parts(static_cast<size_t>(ranks.count));
  for (int64_t rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    std::string &part = parts[static_cast<size_t>(rank - ranks.first)];
    part.resize(std::min<size_t>(slot(rank).parts[number % 2].bytes.load(std::memory_order_relaxed),
                                 kMaxPart));
    if (!readAt(descriptor_.get(), part, placeOfPart(rank, number)))
      return internalError("cannot read what rank {} says to the others", rank);
  }
  return parts;
}

void JobMemory::waitForGather(uint32_t number, std::chrono::milliseconds slice) const {
  const uint32_t seen = gathered();
  if (static_cast<int32_t>(seen - number) < 0 && !isAborted())
    futexWait(&layout_->gathered, seen, slice, FutexScope::Processes);
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
  if (text.size() > kChoiceBytes)
    return;
  std::memcpy(layout_->choice, text.data(), text.size());
  layout_->choiceLength.store(static_cast<uint32_t>(text.size()), std::memory_order_release);
}

std::string JobMemory::choice() const {
  return {layout_->choice,
          std::min(layout_->choiceLength.load(std::memory_order_acquire), kChoiceBytes)};
}

// -- The outcome. --

bool JobMemory::isAborted() const {
  return isAbortedOutcome(layout_->outcome.load(std::memory_order_relaxed));
}

uint32_t JobMemory::writeCause(const JobCause &cause) {
  assert(!cause.status.isOk() && "an abort needs a failure");
  const uint32_t number =
      std::min(layout_->causesTaken.fetch_add(1, std::memory_order_relaxed), kCauseSlots);
  if (number == kCauseSlots)
    return number;
  CauseSlot &mine = layout_->causes[number];
  const std::string &text = cause.status.message();
  mine.rank = cause.rank;
  mine.code = static_cast<int32_t>(cause.status.code());
  mine.length = static_cast<uint32_t>(std::min(text.size(), sizeof mine.text));
  std::memcpy(mine.text, text.data(), mine.length);
  return number;
}

JobCause JobMemory::readCause(uint32_t number) const {
  if (number >= kCauseSlots)
    return JobCause{peerFailed("too many failures at once to record the first one"), -1};
  const CauseSlot &slot = layout_->causes[number];
  const size_t length = std::min<size_t>(slot.length, sizeof slot.text);
  const int64_t rank = slot.rank >= 0 && slot.rank < ranks() ? slot.rank : -1;
  return JobCause{Status(failureOfCode(slot.code).value_or(StatusCode::Internal),
                         std::string(slot.text, length)),
                  rank};
}

namespace {
constexpr bool isOpen(uint64_t outcome) { return (outcome & (kAbortedMark | kProposedMark)) == 0; }

/// Returns the outcome with a mark and a cause. Committed steps remain committed.
constexpr uint64_t marked(uint64_t outcome, uint64_t mark, uint32_t cause) {
  return committedIn(outcome) | (outcome & kMarks) | mark | uint64_t(cause) << kCauseShift;
}
} // namespace

/// Returns false if `next` returned nullopt for the last observed outcome.
bool JobMemory::change(llvm::function_ref<std::optional<uint64_t>(uint64_t outcome)> next) {
  uint64_t seen = layout_->outcome.load(std::memory_order_acquire);
  while (const std::optional<uint64_t> wanted = next(seen))
    if (layout_->outcome.compare_exchange_weak(seen, *wanted, std::memory_order_seq_cst,
                                               std::memory_order_acquire))
      return true;
  return false;
}

/// The text is complete before a single compare-and-swap makes the outcome refer to it. So a
/// process that dies cannot leave an abort half done: before that instruction, another process may
/// still abort the job; after it, the cause is visible to all.
bool JobMemory::abort(const JobCause &cause) {
  if (!isOpen(layout_->outcome.load(std::memory_order_relaxed)))
    return false;
  const uint32_t number = writeCause(cause);
  return change([&](uint64_t seen) -> std::optional<uint64_t> {
    if (!isOpen(seen))
      return std::nullopt;
    return marked(seen, (seen & kElsewhereMark) != 0 ? kProposedMark : kAbortedMark, number);
  });
}

void JobMemory::abortDecided(const JobCause &cause) {
  const uint32_t number = writeCause(cause);
  change([&](uint64_t seen) -> std::optional<uint64_t> {
    if (isAbortedOutcome(seen))
      return std::nullopt;
    return marked(seen & ~(kProposedMark | kElsewhereMark), kAbortedMark, number);
  });
}

/// A concurrent proposal changes the outcome and is therefore not overlooked.
void JobMemory::decideHere() {
  change([](uint64_t seen) -> std::optional<uint64_t> {
    if ((seen & kElsewhereMark) == 0)
      return std::nullopt;
    const uint64_t mark = (seen & kProposedMark) != 0 ? kAbortedMark : 0;
    return (seen & ~(kProposedMark | kElsewhereMark)) | mark;
  });
}

/// Host 0 may commit a step as long as it can be heard, so no host decides earlier. The round-trip
/// time grows while host 0 is silent, until the thread that polls it decides.
void JobMemory::awaitDecision(std::chrono::milliseconds patience) {
  const auto start = std::chrono::steady_clock::now();
  while (proposal())
    if (std::chrono::steady_clock::now() - start >=
        patience + std::chrono::nanoseconds(roundTripNs()))
      decideHere();
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::optional<JobCause> JobMemory::cause() const {
  const uint64_t seen = layout_->outcome.load(std::memory_order_acquire);
  return isAbortedOutcome(seen) ? std::optional(readCause(causeIn(seen))) : std::nullopt;
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

std::optional<JobCause> JobMemory::proposal() const {
  const uint64_t seen = layout_->outcome.load(std::memory_order_acquire);
  const bool isProposed = (seen & (kProposedMark | kAbortedMark)) == kProposedMark;
  return isProposed ? std::optional(readCause(causeIn(seen))) : std::nullopt;
}

bool JobMemory::commit(uint32_t step) {
  change([&](uint64_t seen) -> std::optional<uint64_t> {
    if (committedIn(seen) >= step || isAbortedOutcome(seen))
      return std::nullopt;
    return (seen - committedIn(seen)) | step;
  });
  return committed() >= step;
}

uint32_t JobMemory::committed() const {
  return committedIn(layout_->outcome.load(std::memory_order_acquire));
}

} // namespace braid
