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

static uint64_t keyOf(const Plan &plan) { return programKey(plan.fingerprint, plan.firstCommand); }

/// As all ranks find.
static bool sharesMemory(const Plan &plan) {
  return llvm::any_of(plan.preparation,
                      [](const PrepareAction &each) { return each.kind == PrepareKind::Share; });
}

/// Its GEMMs have been measured, which others may have, too.
Status CudaDevice::registerPlan(const Plan &plan, TransferMode mode) {
  if (std::exchange(seenReplaced_, gemms_->replaced()) != gemms_->replaced())
    for (const std::unique_ptr<Timetable> &each : timetables_)
      if (!llvm::is_contained(releasedPlans_, each->plan))
        BRAID_TRY(growWorkspaces(*each));
  auto timetable = std::make_unique<Timetable>(plan);
  timetable->ctas = mode.ctas;
  timetable->isUsed.resize(plan.streams.size());
  for (const Command &command : plan.commands)
    timetable->isUsed[command.stream] = true;
  BRAID_TRY(planCopyAndSignal(mode, *timetable));
  if (!timetable->waitsByMemory)
    timetable->lastSteps = lastStepsOf(plan);
  for (Timetable *each : byPlan_[&plan])
    if (each->steps.isOfSame(timetable->steps)) { // prepared again
      ++each->users;
      each->ctas = mode.ctas;
      if (timetable->waiting.wanted() > each->waiting.wanted()) { // by kernels now
        each->waiting = timetable->waiting;
        each->limits = reserveWaiting(WaitingBudget::Lane::Ordered, *each);
        each->limitsInGraphs.reset();
      }
      return Status::ok();
    }
  for (uint32_t i = 0; i < plan.origins.size(); ++i)
    timetable->names.push_back(nvtxDomainRegisterStringA(domain_, describeOrigin(plan, i).c_str()));
  BRAID_TRY(allocateForGraphs(*timetable));
  timetable->limits = reserveWaiting(WaitingBudget::Lane::Ordered, *timetable);
  if (sharesMemory(plan))
    timetable->begunRuns = group_.slot().begunRuns.add(keyOf(plan));
  std::lock_guard lock(timetablesMutex_);
  timetables_.push_back(std::move(timetable));
  byPlan_[&plan].push_back(timetables_.back().get());
  current_.store(timetables_.back().get(), std::memory_order_release);
  return Status::ok();
}

/// Workspaces of GEMMs in graphs; the rest is a few cache lines.
int64_t CudaDevice::planBytes(const Plan &plan) {
  size_t bytes = 0;
  if (const Timetable *timetable = findTimetable(&plan))
    for (const Workspace &workspace : timetable->ofGraphs.workspaces)
      bytes += workspace.bytes;
  return static_cast<int64_t>(bytes);
}

/// Null: the Plan is not registered.
CudaDevice::Timetable *CudaDevice::findTimetable(const Plan *plan) const {
  const auto found = byPlan_.find(plan);
  return found == byPlan_.end() || found->second.empty() ? nullptr : found->second.back();
}

/// Steps without a Plan (uploads) launch no kernel, so any Timetable will do.
const CudaDevice::Timetable &CudaDevice::timetableOf(const Plan *plan) const {
  static const Plan kNoPlan;
  static const Timetable kUnknown(kNoPlan);
  const Timetable *found = findTimetable(plan);
  return found ? *found : kUnknown;
}

/// Nothing that was issued of this Plan runs any more. The watchdog may be looking.
void CudaDevice::forgetPlan(const Plan *plan) {
  auto found = llvm::find_if(timetables_, [plan](const auto &each) { return each->plan == plan; });
  if (found == timetables_.end() || --(*found)->users > 0)
    return;
  std::unique_ptr<Timetable> gone;
  {
    std::lock_guard lock(timetablesMutex_);
    countCallersRuns(**found); // nobody asks again
    if (current_.load(std::memory_order_relaxed) == found->get())
      current_.store(nullptr, std::memory_order_release);
    std::vector<Timetable *> &ofPlan = byPlan_[plan];
    std::erase(ofPlan, found->get());
    if (ofPlan.empty())
      byPlan_.erase(plan);
    gone = std::move(*found);
    timetables_.erase(found);
  }
  waitingBudget().release(gone.get());
  if (gone->begunRuns)
    group_.slot().begunRuns.remove(keyOf(*plan));
  releaseForGraphs(*gone); // which may block
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

/// The number that the GPU will write when this step is over.
uint32_t CudaDevice::number(uint32_t stream, Tag tag) {
  if (capture_)
    return tag.command + 1;
  awaitReports(stream);
  return nextNumber(stream, tag);
}

/// The number of an eager step, or of a replay.
uint32_t CudaDevice::nextNumber(uint32_t stream, Tag tag) {
  note(tag);
  const uint32_t first = tag.plan ? tag.plan->firstCommand : 0;
  return issued_[stream].add(packStep(tag.run, first + tag.command));
}

/// Steps without a Plan have no words of their own in a graph.
uint32_t *CudaDevice::stepOf(uint32_t stream, Tag tag) {
  StepWord *ofGraphs = capture_ ? timetableOf(tag.plan).steps.words : nullptr;
  return &(ofGraphs ? ofGraphs : words_)[stream].done;
}

/// If the latest replay is over or has not begun, it can only be waiting for a peer that has begun
/// fewer runs.
bool CudaDevice::hasPeersThatLag(const Timetable &timetable) const {
  if (!timetable.begunRuns)
    return false;
  const uint64_t mine = timetable.begunRuns->load(std::memory_order_relaxed);
  const uint64_t key = keyOf(*timetable.plan);
  return llvm::any_of(timetable.plan->endpoints, [&](const Endpoint &endpoint) {
    const std::optional<uint64_t> theirs = group_.memory().slot(endpoint.peer).begunRuns.of(key);
    return theirs && *theirs < mine;
  });
}

StepsUnderWay CudaDevice::findUnderWay() const {
  StepsUnderWay found;
  for (const std::unique_ptr<Timetable> &each : timetables_) {
    const bool isLaunched = each->isLaunched.load(std::memory_order_relaxed);
    const bool isGuarded = isRunning(*each); // an eager run, or one in a graph
    if ((isLaunched || isGuarded) && each->steps.isWithinRun())
      found.within.push_back(&each->steps);
    else if (isGuarded || (isLaunched && hasPeersThatLag(*each)))
      found.before.push_back(&each->steps);
  }
  return found;
}

uint64_t CudaDevice::nextStep(uint32_t stream, const StepsUnderWay &underWay) const {
  return braid::nextStep(stream, underWay, issued_[stream], words_[stream],
                         [this](uint64_t step) { return awaitOf(step).plan != nullptr; });
}

// -- What the watchdog is told. --

Status CudaDevice::publish() {
  const Status ofMessages = messages_ ? messages_->error() : Status::ok();
  std::lock_guard lock(timetablesMutex_);
  size_t count = 0;
  for (const std::unique_ptr<Timetable> &each : timetables_)
    count = std::max(count, each->steps.streams());
  count = std::min<size_t>(kQueueSlots, count);
  group_.slot().queues.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  group_.slot().runs.store(run_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // Runs in graphs write the same again and again: that one has ended counts for all streams.
  bool hasEnded = false;
  for (const std::unique_ptr<Timetable> &each : timetables_) {
    const uint32_t ended = endedRuns(*each);
    hasEnded = std::exchange(each->ended, ended) != ended || hasEnded;
    countCallersRuns(*each);
  }
  const StepsUnderWay underWay = findUnderWay();
  for (uint32_t stream = 0; stream < count; ++stream)
    publish(stream, underWay, hasEnded);
  return ofMessages.isOk() ? checkOverlaps()
                           : ofMessages.annotated(fmt::format("rank {}", options_.rank));
}

/// Whether a step of the stream has ended since the last question, and which one was last.
bool CudaDevice::hasMoved(uint32_t stream, uint64_t &last) {
  bool hasMoved = false;
  if (const uint32_t done = look(words_[stream].done); std::exchange(seen_[stream], done) != done) {
    hasMoved = true;
    last = issued_[stream].last(words_[stream]);
  }
  for (const std::unique_ptr<Timetable> &each : timetables_)
    if (each->steps.hasMoved(stream)) {
      hasMoved = true;
      last = each->steps.last(stream);
    }
  return hasMoved;
}

void CudaDevice::publish(uint32_t stream, const StepsUnderWay &underWay, bool hasEnded) {
  QueueSlot &queue = group_.slot().queue[stream];
  uint64_t last = kNoStep;
  if (hasMoved(stream, last) || hasEnded) {
    queue.completed.fetch_add(1, std::memory_order_relaxed);
    queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
    if (last != kNoStep)
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
    if (step != kNoStep && command < each->plan->commands.size() &&
        waitsForPeers(each->plan->commands[command].kind))
      return {each->plan, command, static_cast<uint32_t>(step >> 32)};
  }
  return {};
}

} // namespace braid
