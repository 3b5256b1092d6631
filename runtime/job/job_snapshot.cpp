//===- runtime/job/job_snapshot.cpp - what a rank's slot of the job memory says, copied out ---===//

#include "runtime/job/job_snapshot.h"

#include <algorithm>

namespace braid {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// Run 0 does not exist, so memory that nobody has written yet names no command.
std::optional<CommandId> unpack(uint64_t packed) {
  const CommandId id{static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed)};
  if (id.run == 0 || id.command == kNoCommand)
    return std::nullopt;
  return id;
}

QueueSnapshot snapshotOf(const QueueSlot &slot) {
  QueueSnapshot queue;
  queue.current = unpack(slot.current.load(kRelaxed));
  queue.lastDone = unpack(slot.lastDone.load(kRelaxed));
  queue.sinceNs = slot.sinceNs.load(kRelaxed);
  queue.isWaiting = queue.current && slot.isWaiting.load(kRelaxed) != 0;
  queue.flagValue = slot.flagValue.load(kRelaxed);
  queue.wantedValue = slot.wantedValue.load(kRelaxed);
  return queue;
}

template <class Enum> Enum bounded(uint32_t value, Enum last) {
  return value <= static_cast<uint32_t>(last) ? static_cast<Enum>(value) : Enum(0);
}

/// Nothing if the entry is empty or changed meanwhile. Loads that acquire keep the last look at the
/// sequence number behind those at the other fields.
std::optional<FlightSnapshot> read(const FlightEntry &entry) {
  constexpr auto kAcquire = std::memory_order_acquire;
  FlightSnapshot copy;
  copy.sequence = entry.sequence.load(kAcquire);
  const std::optional<CommandId> id = unpack(entry.command.load(kAcquire));
  copy.beginNs = entry.beginNs.load(kAcquire);
  copy.endNs = entry.endNs.load(kAcquire);
  if (copy.sequence == 0 || !id || entry.sequence.load(kRelaxed) != copy.sequence)
    return std::nullopt;
  copy.id = *id;
  return copy;
}

std::vector<FlightSnapshot> flightOf(const RankSlot &slot) {
  std::vector<FlightSnapshot> flight;
  for (const FlightEntry &entry : slot.flight)
    if (std::optional<FlightSnapshot> copy = read(entry))
      flight.push_back(*copy);
  // The number is written last, so an entry that is being used anew may still bear its old one. The
  // oldest entry is the one that is taken next.
  const uint64_t next = slot.flightNext.load(kRelaxed);
  std::erase_if(flight, [&](const FlightSnapshot &entry) {
    return next >= kFlightEntries && entry.sequence <= next - kFlightEntries;
  });
  std::sort(flight.begin(), flight.end(), [](const FlightSnapshot &a, const FlightSnapshot &b) {
    return a.sequence < b.sequence;
  });
  return flight;
}

} // namespace

bool hasReached(CommandId done, CommandId wanted) {
  if (done.run != wanted.run)
    return static_cast<int32_t>(done.run - wanted.run) > 0;
  return done.command >= wanted.command;
}

RankSnapshot snapshotOf(const RankSlot &slot) {
  RankSnapshot rank;
  rank.state = bounded(slot.state.load(kRelaxed), RankState::Dead);
  rank.activity = bounded(slot.activity.load(kRelaxed), HostActivity::Committing);
  rank.activitySinceNs = slot.activitySinceNs.load(kRelaxed);
  rank.heartbeatNs = slot.heartbeatNs.load(kRelaxed);
  rank.issued = slot.issued.load(kRelaxed);
  rank.completed = slot.completed();
  rank.runs = slot.runs.load(kRelaxed);
  rank.isSpeaking = slot.isSpeaking.load(kRelaxed) != 0;
  const uint32_t queues = std::min(slot.queues.load(kRelaxed), kQueueSlots);
  for (uint32_t i = 0; i < queues; ++i)
    rank.queues.push_back(snapshotOf(slot.queue[i]));
  rank.flight = flightOf(slot);
  return rank;
}

std::optional<uint32_t> queueOf(uint32_t stream, size_t queues) {
  if (stream < queues)
    return stream;
  if (queues == 0 || queues >= kQueueSlots)
    return std::nullopt;
  return stream % static_cast<uint32_t>(queues);
}

void KnownPlans::add(llvm::ArrayRef<Plan> plans) {
  if (plans.empty())
    programs_.clear();
  else
    programs_[plans.front().firstCommand] = plans;
}

void KnownPlans::remove(llvm::ArrayRef<Plan> plans) {
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

} // namespace braid
