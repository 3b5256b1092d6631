//===- runtime/job/job_view.cpp - describes what the ranks of a job are doing -----------------===//

#include "runtime/job/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace braid {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

template <class Enum> Enum bounded(Enum value, Enum last) {
  return value <= last ? value : Enum(0);
}

RankView viewOf(const RankSlot &slot) {
  RankView rank;
  rank.state = bounded(slot.state.load(kRelaxed), RankState::Dead);
  rank.activity = bounded(slot.activity.load(kRelaxed), HostActivity::Committing);
  rank.activitySinceNs = slot.activitySinceNs.load(kRelaxed);
  rank.heartbeatNs = slot.heartbeatNs.load(kRelaxed);
  rank.runs = slot.runs.load(kRelaxed);
  rank.gathers = slot.gathers.load(kRelaxed);
  const uint32_t queues = std::min(slot.queues.load(kRelaxed), kQueueSlots);
  for (uint32_t i = 0; i < queues; ++i)
    rank.queues.push_back(viewOf(slot.queue[i]));
  return rank;
}

const char *activityOf(const RankView &rank) {
  constexpr const char *kStates[] = {"has not joined", "", "has left", "is dead"};
  constexpr const char *kActivities[] = {
      "is executing the caller's code", "is waiting for the other ranks in an all-gather",
      "is waiting for its device", "is waiting for the process that hosts the job",
      "is waiting for all ranks to finish"};
  return rank.hasJoined() ? kActivities[static_cast<size_t>(rank.activity)]
                          : kStates[static_cast<size_t>(rank.state)];
}

/// Names the stream on which the event awaited by the command `wait` was recorded. A Plan is issued
/// in order, so this is the stream of the last record of the event before `wait`.
std::string recordingStream(const Plan &plan, uint32_t wait) {
  for (uint32_t i = wait; i-- > 0;)
    if (plan.commands[i].kind == CommandKind::Record &&
        plan.commands[i].event == plan.commands[wait].event)
      return fmt::format("its stream '{}'", plan.streams[plan.commands[i].stream]);
  return "an earlier run";
}

std::string waitedFor(const Plan &plan, uint32_t index) {
  const Command &command = plan.commands[index];
  std::set<int64_t> peers;
  if (command.kind == CommandKind::Collective)
    peers.insert(plan.collectives[command.collective].team.begin(),
                 plan.collectives[command.collective].team.end());
  if (command.kind == CommandKind::Group)
    for (const PlanMessage &message : plan.groups[command.group])
      peers.insert(message.peer);
  peers.erase(plan.rank);
  if (command.kind == CommandKind::Collective || command.kind == CommandKind::Group)
    return nameRanks(std::vector<int64_t>(peers.begin(), peers.end()));
  if (command.kind == CommandKind::Await && command.endpoint != kNone)
    return fmt::format("rank {}", plan.endpoints[command.endpoint].peer);
  if (command.kind == CommandKind::WaitEvent)
    return recordingStream(plan, index);
  return "a flag";
}

} // namespace

std::optional<CommandId> CommandId::unpack(uint64_t packed) {
  const CommandId id{static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed)};
  return id.run == 0 || id.command == kNoCommand ? std::nullopt : std::optional(id);
}

QueueView viewOf(const QueueSlot &slot) {
  QueueView queue;
  queue.current = CommandId::unpack(slot.current.load(kRelaxed));
  queue.lastDone = CommandId::unpack(slot.lastDone.load(kRelaxed));
  queue.sinceNs = slot.sinceNs.load(kRelaxed);
  queue.isWaiting = queue.current && slot.isWaiting.load(kRelaxed) != 0;
  queue.flagValue = slot.flagValue.load(kRelaxed);
  queue.wantedValue = slot.wantedValue.load(kRelaxed);
  return queue;
}

// -- Plans. --

void KnownPlans::add(llvm::ArrayRef<Plan> plans) {
  std::lock_guard lock(mutex);
  if (plans.empty())
    programs_.clear();
  else
    programs_[plans.front().firstCommand] = plans;
}

void KnownPlans::remove(llvm::ArrayRef<Plan> plans) {
  std::lock_guard lock(mutex);
  const auto found = programs_.find(plans.front().firstCommand);
  if (found != programs_.end() && found->second.data() == plans.data())
    programs_.erase(found);
}

const Plan *KnownPlans::find(int64_t rank, uint32_t command) const {
  auto after = programs_.upper_bound(command);
  if (after == programs_.begin())
    return nullptr;
  for (const Plan &plan : std::prev(after)->second)
    if (plan.rank == rank && commandOf(&plan, {0, command}))
      return &plan;
  return nullptr;
}

const Command *commandOf(const Plan *plan, CommandId id) {
  if (!plan || id.command - plan->firstCommand >= plan->commands.size())
    return nullptr;
  return &plan->commands[id.command - plan->firstCommand];
}

const Endpoint *endpointAwaitedIn(const Plan *plan, CommandId id) {
  const Command *command = commandOf(plan, id);
  const bool isAwait =
      command && command->kind == CommandKind::Await && command->endpoint < plan->endpoints.size();
  return isAwait ? &plan->endpoints[command->endpoint] : nullptr;
}

// -- Texts. --

JobView::JobView(const JobMemory &memory, const KnownPlans &plans)
    : memory_(memory), plans_(plans) {
  for (int64_t rank : memory.allRanks())
    ranks_.push_back(viewOf(memory.slot(rank)));
}

const QueueView *JobView::leadingQueue(int64_t rank) const {
  auto key = [&](const QueueView &queue) {
    const Command *command = commandOf(plan(rank, *queue.current), *queue.current);
    const bool waitsForQueue = command && command->kind == CommandKind::WaitEvent;
    return std::pair(!queue.isWaiting ? 0 : waitsForQueue ? 2 : 1, queue.sinceNs);
  };
  const QueueView *best = nullptr;
  for (const QueueView &queue : at(rank).queues)
    if (queue.current && (!best || key(queue) < key(*best)))
      best = &queue;
  return best;
}

std::string JobView::activityText(int64_t rank, const QueueView *queue) const {
  if (!queue)
    return fmt::format("rank {} {}", rank, activityOf(at(rank)));
  const CommandId id = *queue->current;
  if (!queue->isWaiting)
    return fmt::format("rank {} is executing {}", rank, commandText(rank, id));
  const Plan *plan = this->plan(rank, id);
  if (!plan)
    return fmt::format("rank {} is waiting in {}", rank, commandText(rank, id));
  std::string text =
      fmt::format("rank {} is waiting for {} in {}", rank,
                  waitedFor(*plan, id.command - plan->firstCommand), commandText(rank, id));
  if (commandOf(plan, id)->kind == CommandKind::Await)
    text += fmt::format(" (the flag is {}, expected {})", queue->flagValue, queue->wantedValue);
  return text;
}

std::string JobView::text(int64_t rank, const QueueView *queue) const {
  const RankView &view = at(rank);
  std::string text = activityText(rank, queue);
  if (view.state == RankState::Absent)
    return text;
  const uint64_t sinceNs = queue ? queue->sinceNs : view.hasJoined() ? view.activitySinceNs : 0;
  if (sinceNs != 0)
    text += ", for " + durationText(nowNs_ - std::min(nowNs_, sinceNs)) + " so far";
  return text + lastCompleted(rank, queue);
}

std::string JobView::commandText(int64_t rank, CommandId id) const {
  const Plan *plan = this->plan(rank, id);
  const Command *command = commandOf(plan, id);
  return fmt::format("{}, run {}",
                     command && command->origin < plan->origins.size()
                         ? describeOrigin(*plan, command->origin)
                         : fmt::format("command {}", id.command),
                     id.run);
}

std::string JobView::lastCompleted(int64_t rank, const QueueView *queue) const {
  std::optional<CommandId> last = queue ? queue->lastDone : std::nullopt;
  if (!last)
    for (const QueueView &each : at(rank).queues)
      last = std::max(last, each.lastDone);
  return last ? "; last completed: " + commandText(rank, *last) : "; nothing completed yet";
}

std::string durationText(uint64_t ns) {
  const uint64_t ms = ns / 1000000;
  return ms < 100 ? fmt::format("{} ms", ms)
                  : fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

} // namespace braid
