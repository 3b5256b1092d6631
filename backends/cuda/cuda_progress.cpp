//===- backends/cuda/cuda_progress.cpp - the progress of a GPU's streams ----------------------===//

#include "backends/cuda/cuda_progress.h"

#include "ir/failure.h"

#include <algorithm>
#include <utility>

namespace braid {

Status CudaProgress::start(CudaMemory &memory) {
  words_ = static_cast<StepWord *>(
      BRAID_TRY(memory.allocateReports(kMaxPlanStreams * sizeof(StepWord))));
  issued_ = std::make_unique<IssuedSteps[]>(kMaxPlanStreams);
  // The priority of this stream ensures that it shares no hardware queue with the caller's streams.
  reports_ = BRAID_TRY(CudaStreams::create());
  return Status::ok();
}

CudaProgress::~CudaProgress() {
  if (gpu_.isAbandoned || !reports_)
    return;
  cudaStreamSynchronize(reports_); // its writes target memory that is about to be freed
  cudaStreamDestroy(reports_);
}

// -- Registered Plans. --

static uint64_t keyOf(const Plan &plan) { return programKey(plan.fingerprint, plan.firstCommand); }

/// Returns true if ranks access each other's memory. The result is the same on all ranks.
static bool sharesMemory(const Plan &plan) { return plan.channels != 0; }

RegisteredPlan *CudaProgress::find(const Plan *plan) const {
  const auto found = byPlan_.find(plan);
  return found == byPlan_.end() || found->second.empty() ? nullptr : found->second.back();
}

const RegisteredPlan &CudaProgress::of(const Plan *plan) const {
  static const Plan kNoPlan;
  static const RegisteredPlan kUnknown(kNoPlan);
  const RegisteredPlan *found = find(plan);
  return found ? *found : kUnknown;
}

RegisteredPlan *CudaProgress::findSame(const RegisteredPlan &other) const {
  const auto found = byPlan_.find(other.plan);
  if (found != byPlan_.end())
    for (RegisteredPlan *each : found->second)
      if (each->steps.isOfSame(other.steps))
        return each;
  return nullptr;
}

void CudaProgress::add(std::unique_ptr<RegisteredPlan> plan) {
  if (sharesMemory(*plan->plan))
    plan->begunRuns = gpu_.group.slot().begunRuns.add(keyOf(*plan->plan));
  std::lock_guard lock(mutex_);
  plans_.push_back(std::move(plan));
  byPlan_[plans_.back()->plan].push_back(plans_.back().get());
  current_.store(plans_.back().get(), std::memory_order_release);
}

/// Holds the lock while modifying plans_, because the watchdog may be reading it.
std::unique_ptr<RegisteredPlan> CudaProgress::remove(const Plan *plan) {
  auto found = llvm::find_if(plans_, [plan](const auto &each) { return each->plan == plan; });
  if (found == plans_.end() || --(*found)->users > 0)
    return nullptr;
  std::unique_ptr<RegisteredPlan> gone;
  {
    std::lock_guard lock(mutex_);
    (*found)->countCallersRuns(); // the last chance to count these runs
    if (current_.load(std::memory_order_relaxed) == found->get())
      current_.store(nullptr, std::memory_order_release);
    std::vector<RegisteredPlan *> &ofPlan = byPlan_[plan];
    std::erase(ofPlan, found->get());
    if (ofPlan.empty())
      byPlan_.erase(plan);
    gone = std::move(*found);
    plans_.erase(found);
  }
  if (gone->begunRuns)
    gpu_.group.slot().begunRuns.remove(keyOf(*plan));
  return gone;
}

RegisteredPlan *CudaProgress::note(Tag tag) {
  run_.store(tag.run, std::memory_order_relaxed);
  RegisteredPlan *current = current_.load(std::memory_order_relaxed);
  if (current && current->plan == tag.plan)
    return current;
  current = find(tag.plan);
  if (current)
    current_.store(current, std::memory_order_release);
  return current;
}

// -- Steps. --

uint32_t CudaProgress::number(uint32_t stream, Tag tag) {
  if (streams_.isCapturing())
    return tag.command + 1;
  awaitReports(stream);
  return nextNumber(stream, tag);
}

/// Returns the number for an eager step or a replay.
uint32_t CudaProgress::nextNumber(uint32_t stream, Tag tag) {
  note(tag);
  const uint32_t first = tag.plan ? tag.plan->firstCommand : 0;
  return issued_[stream].add(packStep(tag.run, first + tag.command));
}

/// Returns the step word of the captured Plan, or the word for eager runs.
uint32_t *CudaProgress::stepOf(uint32_t stream, Tag tag) {
  StepWord *ofGraphs = streams_.isCapturing() ? of(tag.plan).steps.words : nullptr;
  return &(ofGraphs ? ofGraphs : words_)[stream].done;
}

/// Writes the report on a separate stream that waits for the replay. On the replay's own stream,
/// the write would delay the next replay by 3.4 us.
void CudaProgress::reportReplay(const RegisteredPlan &replayed, uint32_t run) {
  if (replayed.steps.lastWait() == kNone)
    return;
  const Tag tag = {replayed.plan, replayed.steps.lastWait(), run};
  streams_.putBehind(streams_.first(), reports_);
  report(reports_, stepOf(0, tag), nextNumber(0, tag));
  isReportedBeside_ = true;
}

/// Orders later reports on `stream` after the reports on replays, which are written on reports_,
/// because step numbers must never decrease.
void CudaProgress::awaitReports(uint32_t stream) {
  if (stream == 0 && std::exchange(isReportedBeside_, false))
    streams_.putBehind(reports_, streams_.first());
}

void CudaProgress::reportStep(uint32_t stream, Tag tag) {
  report(streams_.of(stream), stepOf(stream, tag), number(stream, tag));
}

void CudaProgress::report(cudaStream_t stream, uint32_t *word, uint32_t value) {
  CUstreamBatchMemOpParams operation = writeOf(word, value);
  gpu_.check(gpu_.driver->streamBatchMemOp(stream, 1, &operation, 0), "cuStreamBatchMemOp");
}

void CudaProgress::noteIdle() {
  for (const std::unique_ptr<RegisteredPlan> &each : plans_)
    each->isLaunched.store(false, std::memory_order_relaxed);
}

Status CudaProgress::checkOverlaps() const {
  for (const std::unique_ptr<RegisteredPlan> &each : plans_)
    if (each->hasOverlapped())
      return badInput("rank {}: two runs of @{} overlapped, and at least one of them was in a "
                      "graph that the caller captured; serialize the launches of these graphs",
                      gpu_.rank, each->plan->program);
  return Status::ok();
}

/// Returns true if a peer has begun fewer runs than this rank. A replay that has been launched but
/// has not begun can only be waiting for a peer that lags behind.
bool CudaProgress::hasPeersThatLag(const RegisteredPlan &registered) const {
  if (!registered.begunRuns)
    return false;
  const uint64_t mine = registered.begunRuns->load(std::memory_order_relaxed);
  const uint64_t key = keyOf(*registered.plan);
  return llvm::any_of(registered.plan->endpoints, [&](const Endpoint &endpoint) {
    const std::optional<uint64_t> theirs =
        gpu_.group.memory().slot(endpoint.peer).begunRuns.of(key);
    return theirs && *theirs < mine;
  });
}

StepsUnderWay CudaProgress::findUnderWay() const {
  StepsUnderWay found;
  for (const std::unique_ptr<RegisteredPlan> &each : plans_) {
    const bool isLaunched = each->isLaunched.load(std::memory_order_relaxed);
    const bool isGuarded = each->isRunning(); // an eager run, or a run in a caller's graph
    if ((isLaunched || isGuarded) && each->steps.isWithinRun())
      found.within.push_back(&each->steps);
    else if (isGuarded || (isLaunched && hasPeersThatLag(*each)))
      found.before.push_back(&each->steps);
  }
  return found;
}

uint64_t CudaProgress::nextStep(uint32_t stream, const StepsUnderWay &underWay) const {
  return braid::nextStep(stream, underWay, issued_[stream], words_[stream],
                         [this](uint64_t step) { return awaitOf(step).plan != nullptr; });
}

// -- Reports to the watchdog. --

Status CudaProgress::publish(const Status &background) {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const std::unique_ptr<RegisteredPlan> &each : plans_)
    count = std::max(count, each->steps.streams());
  count = std::min<size_t>(kQueueSlots, count);
  gpu_.group.slot().queues.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  gpu_.group.slot().runs.store(run_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // Every run in a graph writes the same numbers, so the end of a run counts as progress on all
  // streams.
  bool hasEnded = false;
  for (const std::unique_ptr<RegisteredPlan> &each : plans_) {
    const uint32_t ended = each->endedRuns();
    hasEnded = std::exchange(each->ended, ended) != ended || hasEnded;
    each->countCallersRuns();
  }
  const StepsUnderWay underWay = findUnderWay();
  for (uint32_t stream = 0; stream < count; ++stream)
    publish(stream, underWay, hasEnded);
  return background.isOk() ? checkOverlaps()
                           : background.annotated(fmt::format("rank {}", gpu_.rank));
}

/// Returns true if a step of the stream has completed since the last call, and sets `last` to the
/// latest completed step.
bool CudaProgress::hasMoved(uint32_t stream, uint64_t &last) {
  bool hasMoved = false;
  if (const uint32_t done = look(words_[stream].done); std::exchange(seen_[stream], done) != done) {
    hasMoved = true;
    last = issued_[stream].last(words_[stream]);
  }
  for (const std::unique_ptr<RegisteredPlan> &each : plans_)
    if (each->steps.hasMoved(stream)) {
      hasMoved = true;
      last = each->steps.last(stream);
    }
  return hasMoved;
}

void CudaProgress::publish(uint32_t stream, const StepsUnderWay &underWay, bool hasEnded) {
  QueueSlot &queue = gpu_.group.slot().queue[stream];
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

Tag CudaProgress::awaitOf(uint64_t step) const {
  for (const std::unique_ptr<RegisteredPlan> &each : llvm::reverse(plans_)) {
    const uint32_t command = static_cast<uint32_t>(step) - each->plan->firstCommand;
    if (step != kNoStep && command < each->plan->commands.size() &&
        waitsForPeers(each->plan->commands[command].kind))
      return {each->plan, command, static_cast<uint32_t>(step >> 32)};
  }
  return {};
}

} // namespace braid
