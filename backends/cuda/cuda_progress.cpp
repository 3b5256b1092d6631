//===- backends/cuda/cuda_progress.cpp - how far a GPU is -------------------------------------===//
//
// The GPU writes into host memory which signal or await of a stream was over last. Here this
// becomes what the watchdog wants to know: which command each stream is at, and whether it waits.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/cuda_device.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace braid {
namespace {

bool waitsForPeers(CommandKind kind) {
  return kind == CommandKind::Await || kind == CommandKind::Group ||
         kind == CommandKind::Collective;
}

} // namespace

Status CudaDevice::registerPlan(const Plan &plan, TransferMode mode) {
  auto timetable = std::make_unique<Timetable>();
  timetable->plan = &plan;
  timetable->ctas = mode.ctas;
  timetable->commands.resize(plan.streams.size());
  timetable->isUsed.resize(plan.streams.size());
  timetable->seen.resize(plan.streams.size());
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    CommandKind kind = plan.commands[i].kind;
    timetable->isUsed[plan.commands[i].stream] = true;
    if (kind == CommandKind::Signal || waitsForPeers(kind))
      timetable->commands[plan.commands[i].stream].push_back(i);
  }
  BRAID_TRY(planCopyAndSignal(plan, mode, *timetable));
  for (const std::unique_ptr<Timetable> &each : timetables_)
    if (each->plan == &plan && each->commands == timetable->commands) { // prepared again
      ++each->users;
      each->ctas = mode.ctas;
      return Status::ok();
    }
  for (uint32_t i = 0; i < plan.origins.size(); ++i)
    timetable->names.push_back(nvtxDomainRegisterStringA(domain_, describeOrigin(plan, i).c_str()));
  BRAID_TRY(allocateForGraphs(*timetable));
  std::lock_guard lock(timetablesMutex_);
  timetables_.push_back(std::move(timetable));
  current_.store(timetables_.back().get(), std::memory_order_release);
  return Status::ok();
}

/// Null: the Plan is not registered.
CudaDevice::Timetable *CudaDevice::findTimetable(const Plan *plan) const {
  for (const std::unique_ptr<Timetable> &each : llvm::reverse(timetables_))
    if (each->plan == plan)
      return each.get();
  return nullptr;
}

/// What belongs to no Plan (uploads) needs no kernel, so any will do.
const CudaDevice::Timetable &CudaDevice::timetableOf(const Plan *plan) const {
  static const Timetable kUnknown = {};
  const Timetable *found = findTimetable(plan);
  return found ? *found : kUnknown;
}

/// Nothing that was issued of this Plan runs any more. The watchdog may be looking.
void CudaDevice::forgetPlan(const Plan *plan) {
  auto found = llvm::find_if(timetables_, [plan](const auto &each) { return each->plan == plan; });
  if (found == timetables_.end() || --(*found)->users > 0)
    return;
  releaseForGraphs(**found);
  std::lock_guard lock(timetablesMutex_);
  if (current_.load(std::memory_order_relaxed) == found->get())
    current_.store(nullptr, std::memory_order_release);
  timetables_.erase(found);
}

/// Remembers what is being issued, for the watchdog. Null: of no registered Plan.
CudaDevice::Timetable *CudaDevice::note(Tag tag) {
  run_.store(tag.run, std::memory_order_relaxed);
  Timetable *current = current_.load(std::memory_order_relaxed);
  if (current && current->plan == tag.plan)
    return current;
  current = findTimetable(tag.plan);
  if (current)
    current_.store(current, std::memory_order_release);
  return current;
}

/// What the GPU will write when this signal or await is over, and where.
uint32_t CudaDevice::number(uint32_t stream, Tag tag) {
  if (capture_)
    return tag.command + 1;
  note(tag);
  Issued &issued = issued_[stream];
  const uint32_t next = issued.count.load(std::memory_order_relaxed) + 1;
  const uint32_t first = tag.plan ? tag.plan->firstCommand : 0;
  issued.commands[next % Issued::kKept].store(uint64_t(tag.run) << 32 | (first + tag.command),
                                              std::memory_order_relaxed);
  issued.count.store(next, std::memory_order_release);
  return next;
}

/// What belongs to no Plan has no words of its own in a graph.
uint32_t *CudaDevice::stepOf(uint32_t stream, Tag tag) {
  Step *ofGraphs = capture_ ? timetableOf(tag.plan).ofGraphs.steps : nullptr;
  return &(ofGraphs ? ofGraphs : steps_)[stream].done;
}

// -- What was issued. --

/// Of more than are kept, the oldest that is.
uint64_t CudaDevice::nextIssued(uint32_t stream) const {
  const Issued &issued = issued_[stream];
  const uint32_t count = issued.count.load(std::memory_order_acquire);
  const uint32_t left = count - look(steps_[stream].done);
  if (left == 0)
    return kNothing;
  const uint32_t next = count - std::min(left, Issued::kKept) + 1;
  return issued.commands[next % Issued::kKept].load(std::memory_order_relaxed);
}

uint64_t CudaDevice::lastIssued(uint32_t stream) const {
  const uint32_t done = look(steps_[stream].done);
  return done == 0 ? kNothing
                   : issued_[stream].commands[done % Issued::kKept].load(std::memory_order_relaxed);
}

// -- Runs in graphs. --

/// The last step of a run is followed by the first one of the next.
uint64_t CudaDevice::nextInGraph(const Timetable &timetable, uint32_t stream) {
  if (stream >= timetable.commands.size() || timetable.commands[stream].empty())
    return kNothing;
  const std::vector<uint32_t> &commands = timetable.commands[stream];
  const uint32_t after = look(timetable.ofGraphs.steps[stream].done);
  const auto next = std::lower_bound(commands.begin(), commands.end(), after);
  return uint64_t(timetable.run.load(std::memory_order_relaxed)) << 32 |
         (timetable.plan->firstCommand + (next == commands.end() ? commands.front() : *next));
}

uint64_t CudaDevice::lastInGraph(const Timetable &timetable, uint32_t stream) {
  const uint32_t done = look(timetable.ofGraphs.steps[stream].done);
  return done == 0 ? kNothing
                   : uint64_t(timetable.run.load(std::memory_order_relaxed)) << 32 |
                         (timetable.plan->firstCommand + done - 1);
}

/// Does any run in a graph go on? Replays of our own write the same numbers again and again, so
/// where every stream is at its last one, the latest may be over, or may not have come to its
/// first. It waits there for a peer that has not begun as many runs, and else for nobody.
bool CudaDevice::isUnderWay(const Timetable &timetable) const {
  if (isRunning(timetable))
    return true;
  if (!timetable.isLaunched.load(std::memory_order_relaxed))
    return false;
  for (size_t stream = 0; stream < timetable.commands.size(); ++stream) {
    const std::vector<uint32_t> &commands = timetable.commands[stream];
    if (!commands.empty() && look(timetable.ofGraphs.steps[stream].done) != commands.back() + 1)
      return true;
  }
  const size_t kind = programKind(timetable.plan->fingerprint);
  const auto begun = [&](int64_t rank) {
    return group_.memory().slot(rank).begunRuns[kind].load(std::memory_order_relaxed);
  };
  return llvm::any_of(timetable.plan->endpoints, [&](const Endpoint &endpoint) {
    return begun(endpoint.peer) < begun(options_.rank);
  });
}

const CudaDevice::Timetable *CudaDevice::findUnderWay() const {
  const Timetable *found = nullptr;
  for (const std::unique_ptr<Timetable> &each : timetables_)
    if (isUnderWay(*each) && (!found || each.get() == current_.load(std::memory_order_relaxed)))
      found = each.get();
  return found;
}

uint64_t CudaDevice::nextStep(uint32_t stream, const Timetable *underWay) const {
  const uint64_t issued = nextIssued(stream);
  return issued == kNothing && underWay ? nextInGraph(*underWay, stream) : issued;
}

// -- What the watchdog is told. --

void CudaDevice::publish() {
  if (messages_)
    if (Status status = messages_->error(); !status.isOk())
      group_.abort(status.annotated(fmt::format("rank {}", options_.rank)));
  std::lock_guard lock(timetablesMutex_);
  checkOverlaps();
  size_t count = 0;
  for (const std::unique_ptr<Timetable> &each : timetables_)
    count = std::max(count, each->commands.size());
  count = std::min<size_t>(kQueueSlots, count);
  group_.slot().queues.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  group_.slot().runs.store(run_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // Runs in graphs write the same again and again: that one has ended counts for all streams.
  bool hasEnded = false;
  for (const std::unique_ptr<Timetable> &each : timetables_) {
    const uint32_t ended = endedRuns(*each);
    hasEnded = std::exchange(each->ended, ended) != ended || hasEnded;
  }
  const Timetable *underWay = findUnderWay();
  for (uint32_t stream = 0; stream < count; ++stream)
    publish(stream, underWay, hasEnded);
}

/// Whether a step of the stream has ended since the last question, and which one was last.
bool CudaDevice::hasMoved(uint32_t stream, uint64_t &last) {
  bool hasMoved = false;
  if (const uint32_t done = look(steps_[stream].done); std::exchange(seen_[stream], done) != done) {
    hasMoved = true;
    last = lastIssued(stream);
  }
  for (const std::unique_ptr<Timetable> &each : timetables_) {
    if (stream >= each->seen.size())
      continue;
    const uint32_t done = look(each->ofGraphs.steps[stream].done);
    if (std::exchange(each->seen[stream], done) == done)
      continue;
    hasMoved = true;
    last = lastInGraph(*each, stream);
  }
  return hasMoved;
}

void CudaDevice::publish(uint32_t stream, const Timetable *underWay, bool hasEnded) {
  QueueSlot &queue = group_.slot().queue[stream];
  uint64_t last = kNothing;
  if (hasMoved(stream, last) || hasEnded) {
    queue.completed.fetch_add(1, std::memory_order_relaxed);
    queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
    if (last != kNothing)
      queue.lastDone.store(last, std::memory_order_relaxed);
  }
  const uint64_t next = nextStep(stream, underWay);
  const bool isAwait = awaitOf(next).plan != nullptr;
  if (queue.current.exchange(next, std::memory_order_relaxed) != next)
    queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
  queue.isWaiting.store(isAwait, std::memory_order_relaxed);
  queue.wantedValue.store(isAwait, std::memory_order_relaxed);
}

Tag CudaDevice::awaitOf(uint64_t step) const {
  for (const std::unique_ptr<Timetable> &each : llvm::reverse(timetables_)) {
    const uint32_t command = static_cast<uint32_t>(step) - each->plan->firstCommand;
    if (step != kNothing && command < each->plan->commands.size() &&
        waitsForPeers(each->plan->commands[command].kind))
      return {each->plan, command, static_cast<uint32_t>(step >> 32)};
  }
  return {};
}

std::vector<PendingWait> CudaDevice::pending() {
  std::vector<PendingWait> waits;
  if (isDone())
    return waits;
  const Timetable *underWay = findUnderWay();
  for (uint32_t stream = 0; stream < streams_.size(); ++stream)
    if (const Tag wait = awaitOf(nextStep(stream, underWay)); wait.plan)
      waits.push_back({wait, stream});
  return waits;
}

} // namespace braid
