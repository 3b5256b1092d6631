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
  timetable->number = nextTimetable_++ % kPlans;
  timetable->commands.resize(plan.streams.size());
  timetable->isUsed.resize(plan.streams.size());
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

/// Remembers what is being issued, for the watchdog.
void CudaDevice::note(Tag tag) {
  const Timetable *current = current_.load(std::memory_order_relaxed);
  if (!current || current->plan != tag.plan)
    for (const std::unique_ptr<Timetable> &each : timetables_)
      if (each->plan == tag.plan)
        current_.store(each.get(), std::memory_order_release);
  run_.store(tag.run, std::memory_order_relaxed);
  isBusy_.store(true, std::memory_order_relaxed);
}

/// What the GPU will write when this signal or await is over.
uint32_t CudaDevice::number(uint32_t stream, Tag tag) {
  if (capture_)
    return kReplayed | timetableOf(tag.plan).number << kPlanShift |
           std::min(tag.command + 1, kCommands);
  note(tag);
  Issued &issued = issued_[stream];
  issued.isReplay.store(false, std::memory_order_relaxed);
  const uint32_t next = (issued.count.load(std::memory_order_relaxed) + 1) & ~kReplayed;
  const uint32_t first = tag.plan ? tag.plan->firstCommand : 0;
  issued.commands[next % Issued::kKept].store(uint64_t(tag.run) << 32 | (first + tag.command),
                                              std::memory_order_relaxed);
  issued.count.store(next, std::memory_order_release);
  return next;
}

uint64_t CudaDevice::nextStep(const Timetable &timetable, uint32_t stream, uint32_t done) const {
  const Issued &issued = issued_[stream];
  if (!issued.isReplay.load(std::memory_order_relaxed) && !isRunning(timetable)) {
    const uint32_t count = issued.count.load(std::memory_order_acquire);
    // After a replay nothing tells how many of the eager ones before it are over: all.
    const uint32_t next = done & kReplayed ? count : done + 1;
    bool isKept = count - next < Issued::kKept;
    return next == 0 || next > count || !isKept
               ? kNothing
               : issued.commands[next % Issued::kKept].load(std::memory_order_relaxed);
  }
  if (stream >= timetable.commands.size() || timetable.commands[stream].empty())
    return kNothing;
  // The last step of a run is followed by the first one of the next.
  const std::vector<uint32_t> &commands = timetable.commands[stream];
  const uint32_t after = replayedCommand(timetable, done);
  auto next = std::lower_bound(commands.begin(), commands.end(), after);
  return uint64_t(run_.load(std::memory_order_relaxed)) << 32 |
         (timetable.plan->firstCommand + (next == commands.end() ? commands.front() : *next));
}

bool CudaDevice::areReplaysOver(const Timetable &timetable) const {
  for (uint32_t stream = 0; stream < timetable.commands.size(); ++stream) {
    const uint32_t done =
        std::atomic_ref<uint32_t>(steps_[stream].done).load(std::memory_order_relaxed);
    if (issued_[stream].isReplay.load(std::memory_order_relaxed) &&
        !timetable.commands[stream].empty() &&
        replayedCommand(timetable, done) != timetable.commands[stream].back() + 1)
      return false;
  }
  return true;
}

uint32_t CudaDevice::replayedCommand(const Timetable &timetable, uint32_t done) {
  const bool isOurs = done & kReplayed && (done >> kPlanShift) % kPlans == timetable.number;
  return isOurs ? done & kCommands : 0;
}

uint64_t CudaDevice::lastStep(const Timetable &timetable, uint32_t stream, uint32_t done) const {
  if (done == 0)
    return kNothing;
  if (!(done & kReplayed))
    return issued_[stream].commands[done % Issued::kKept].load(std::memory_order_relaxed);
  const uint32_t command = replayedCommand(timetable, done);
  return command == 0 ? kNothing
                      : uint64_t(run_.load(std::memory_order_relaxed)) << 32 |
                            (timetable.plan->firstCommand + command - 1);
}

void CudaDevice::publish() {
  if (messages_)
    if (Status status = messages_->error(); !status.isOk())
      group_.abort(status.annotated(fmt::format("rank {}", options_.rank)));
  std::lock_guard lock(timetablesMutex_);
  checkOverlaps();
  const Timetable *timetable = current_.load(std::memory_order_acquire);
  bool isBusy = isBusy_.load(std::memory_order_relaxed);
  // The caller launches its graphs without telling.
  bool isCallers = false, hasEnded = false;
  for (const std::unique_ptr<Timetable> &each : timetables_) {
    if (isRunning(*each)) {
      timetable = each.get();
      isBusy = isCallers = true;
    }
    const uint32_t ended = endedRuns(*each);
    hasEnded = hasEnded || std::exchange(each->ended, ended) != ended;
  }
  if (!timetable)
    return;
  // It may never ask whether what it replays is over.
  RankSlot &slot = group_.slot();
  const auto activity = static_cast<HostActivity>(slot.activity.load(std::memory_order_relaxed));
  const bool isOver = !isCallers && activity == HostActivity::OwnCode && areReplaysOver(*timetable);
  size_t count = 0;
  for (const std::unique_ptr<Timetable> &each : timetables_)
    count = std::max(count, each->commands.size());
  count = std::min<size_t>(kQueueSlots, count);
  slot.queues.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  slot.runs.store(run_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  for (uint32_t stream = 0; stream < count; ++stream) {
    QueueSlot &queue = slot.queue[stream];
    uint32_t done = std::atomic_ref<uint32_t>(steps_[stream].done).load(std::memory_order_relaxed);
    if (done != seen_[stream] || hasEnded) { // the runs of a graph write the same again
      seen_[stream] = done;
      queue.completed.fetch_add(1, std::memory_order_relaxed);
      queue.lastDone.store(lastStep(*timetable, stream, done), std::memory_order_relaxed);
      queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
    }
    const bool isReplay = issued_[stream].isReplay.load(std::memory_order_relaxed);
    const bool isAny = isBusy && !(isReplay && isOver);
    const uint64_t next = isAny ? nextStep(*timetable, stream, done) : kNothing;
    const bool isAwait = awaitOf(next).plan != nullptr;
    if (queue.current.exchange(next, std::memory_order_relaxed) != next)
      queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
    queue.isWaiting.store(isAwait, std::memory_order_relaxed);
    queue.wantedValue.store(isAwait, std::memory_order_relaxed);
  }
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
  const Timetable *timetable = current_.load(std::memory_order_acquire);
  if (!timetable || isDone())
    return waits;
  for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
    uint32_t done = std::atomic_ref<uint32_t>(steps_[stream].done).load(std::memory_order_relaxed);
    const Tag wait = awaitOf(nextStep(*timetable, stream, done));
    if (isDirty_[stream] && wait.plan)
      waits.push_back({wait, stream});
  }
  return waits;
}

} // namespace braid
