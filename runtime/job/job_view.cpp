//===- runtime/job/job_view.cpp - what the ranks of a job are doing, in words -----------------===//

#include "runtime/job/job_view.h"
#include "runtime/execute/pending_report.h"

#include <fmt/format.h>

namespace braid {

namespace {

/// The activity of a rank while none of its queues is in a command.
const char *activityOf(const RankSnapshot &rank) {
  switch (rank.state) {
  case RankState::Absent:
    return "has not joined";
  case RankState::Left:
    return "has left";
  case RankState::Dead:
    return "is dead";
  case RankState::Joined:
    break;
  }
  if (rank.isSpeaking)
    return "is sending its part to the others";
  switch (rank.activity) {
  case HostActivity::OwnCode:
    return "is in its own code";
  case HostActivity::Preparing:
    return "is preparing";
  case HostActivity::InAllGather:
    return "waits for all ranks to say their part";
  case HostActivity::InSynchronize:
    return "waits for its device";
  case HostActivity::Committing:
    return "waits for all ranks to be done";
  }
  return "is in its own code";
}

} // namespace

const RankSnapshot &JobView::at(int64_t rank) const {
  std::optional<RankSnapshot> &snapshot = ranks_[static_cast<size_t>(rank)];
  if (!snapshot)
    snapshot = snapshotOf(memory_.slot(rank));
  return *snapshot;
}

const QueueSnapshot *JobView::leadingQueue(int64_t rank) const {
  auto key = [&](const QueueSnapshot &queue) {
    const Command *command = commandOf(plan(rank, *queue.current), *queue.current);
    const bool waitsForQueue = command && command->kind == CommandKind::WaitEvent;
    return std::pair(!queue.isWaiting ? 0 : waitsForQueue ? 2 : 1, queue.sinceNs);
  };
  const QueueSnapshot *best = nullptr;
  for (const QueueSnapshot &queue : at(rank).queues)
    if (queue.current && (!best || key(queue) < key(*best)))
      best = &queue;
  return best;
}

std::string JobView::rankText(int64_t rank) const {
  const QueueSnapshot *queue = leadingQueue(rank);
  return queue ? queueText(rank, *queue) : hostText(rank);
}

std::string JobView::queueText(int64_t rank, const QueueSnapshot &queue) const {
  const std::string text =
      queue.isWaiting ? waitText(rank, queue)
                      : fmt::format("rank {} is in {}", rank, commandText(rank, *queue.current));
  return text + lasting(queue.sinceNs) + lastCompleted(rank, &queue);
}

std::string JobView::hostText(int64_t rank) const {
  const RankSnapshot &snapshot = at(rank);
  std::string text = activityText(rank);
  if (snapshot.state == RankState::Absent)
    return text;
  if (snapshot.state == RankState::Joined)
    text += lasting(snapshot.activitySinceNs);
  return text + lastCompleted(rank, nullptr);
}

std::string JobView::waitText(int64_t rank, const QueueSnapshot &queue) const {
  const CommandId id = *queue.current;
  const Plan *plan = this->plan(rank, id);
  const Command *command = commandOf(plan, id);
  if (!command)
    return fmt::format("rank {} waits in {}", rank, commandText(rank, id));
  std::string text = fmt::format("rank {} waits for {}", rank,
                                 braid::waitText(*plan, id.command - plan->firstCommand, id.run));
  if (command->kind == CommandKind::Await)
    text += fmt::format(" (the flag is {}, wanted {})", queue.flagValue, queue.wantedValue);
  return text;
}

std::string JobView::activityText(int64_t rank) const {
  return fmt::format("rank {} {}", rank, activityOf(at(rank)));
}

std::string JobView::commandText(int64_t rank, CommandId id) const {
  const Plan *plan = this->plan(rank, id);
  return plan ? braid::commandText(*plan, id.command - plan->firstCommand, id.run)
              : fmt::format("command {}, run {}", id.command, id.run);
}

std::string JobView::lastCompleted(int64_t rank, const QueueSnapshot *queue) const {
  std::optional<CommandId> last = queue ? queue->lastDone : std::nullopt;
  if (!last)
    for (const QueueSnapshot &each : at(rank).queues)
      if (each.lastDone && (!last || hasReached(*each.lastDone, *last)))
        last = each.lastDone;
  return last ? "; last completed: " + commandText(rank, *last) : "; nothing completed yet";
}

/// ", for 0.4 s", or nothing if nobody wrote down since when.
std::string JobView::lasting(uint64_t sinceNs) const {
  if (sinceNs == 0)
    return "";
  return ", for " + durationText(nowNs_ - std::min(nowNs_, sinceNs));
}

std::string durationText(uint64_t ns) {
  const uint64_t ms = ns / 1000000;
  return ms < 100 ? fmt::format("{} ms", ms)
                  : fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

} // namespace braid
