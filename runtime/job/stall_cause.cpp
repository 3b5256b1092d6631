//===- runtime/job/stall_cause.cpp - detects a stalled job and finds the cause ----------------===//

#include "runtime/job/stall_cause.h"
#include "ir/counted.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace braid {

namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxReportedRanks = 16;
/// The first line lists at most this many waits of ranks that wait for each other.
constexpr int64_t kMaxWaits = 4;

bool isInOwnCode(const RankView &rank) {
  return rank.activity == HostActivity::OwnCode || rank.activity == HostActivity::Preparing;
}

// -- Waits. --

/// Why a wait does not end. The reasons that explain a stall best come first.
enum class Reason {
  Gone,       ///< waits for a rank that has not joined, has left or is dead
  OwnCode,    ///< waits for a host thread that is outside Braid or has not sent its part
  Lost,       ///< waits for a signal whose sender has already passed it
  Idle,       ///< waits for a queue that has no work or makes no progress
  HostSilent, ///< waits for the job's host although all ranks have joined the all-gather
  Unknown,    ///< waits in a command that no known Plan contains
  Waiter,     ///< waits for a queue or host thread that waits itself
};

/// The reason for a wait, and the rank to blame for it, or -1.
struct Awaited {
  Reason reason;
  int64_t rank = -1;
};

Awaited hostOf(const JobView &job, int64_t rank) {
  const RankView &view = job.at(rank);
  if (!view.hasJoined())
    return {Reason::Gone, rank};
  return {isInOwnCode(view) || view.isSpeaking ? Reason::OwnCode : Reason::Waiter, rank};
}

/// Returns the queue that runs a stream of a rank, or null if no slot shows it.
const QueueView *queueOf(const RankView &rank, uint32_t stream) {
  const size_t queues = rank.queues.size();
  if (queues == 0 || (stream >= queues && queues >= kQueueSlots))
    return nullptr;
  return &rank.queues[stream % queues];
}

/// Returns the signal in the Plan `peer` that the endpoint `mine` of `plan` awaits, or null if
/// unknown.
const Command *signalFor(const Plan &plan, const Endpoint &mine, const Plan &peer) {
  for (const Command &command : peer.commands) {
    if (command.kind != CommandKind::Signal)
      continue;
    const Endpoint &theirs = peer.endpoints[command.endpoint];
    if (theirs.peer == plan.rank && theirs.channel == mine.channel &&
        theirs.sequence == mine.sequence && theirs.direction != mine.direction)
      return &command;
  }
  return nullptr;
}

/// Returns the reason why the signal that a queue of `rank` awaits in command `id` has not arrived.
Awaited signalAwaitedIn(const JobView &job, int64_t rank, CommandId id) {
  const Plan *plan = job.plan(rank, id);
  const Command *command = commandOf(plan, id);
  if (command && command->kind == CommandKind::WaitEvent)
    return {Reason::Waiter};
  const Endpoint *mine = endpointAwaitedIn(plan, id);
  if (!mine || mine->peer < 0 || mine->peer >= job.ranks())
    return {Reason::Unknown};
  const Plan *peer = job.plan(mine->peer, {id.run, plan->firstCommand});
  const Command *signal = peer ? signalFor(*plan, *mine, *peer) : nullptr;
  if (!signal)
    return {Reason::Unknown};
  const RankView &view = job.at(mine->peer);
  const QueueView *queue = queueOf(view, signal->stream);
  const auto index = static_cast<uint32_t>(signal - peer->commands.data());
  if (queue && commandOf(peer, queue->lastDone.value_or(CommandId{0, kNoCommand})) &&
      *queue->lastDone >= CommandId{id.run, peer->firstCommand + index})
    return {Reason::Lost, mine->peer};
  if (!view.hasJoined())
    return {Reason::Gone, mine->peer};
  if (queue && queue->isWaiting)
    return {Reason::Waiter};
  if (view.runs >= id.run && !isInOwnCode(view))
    return {Reason::Idle, mine->peer};
  return hostOf(job, mine->peer);
}

/// Returns the reason for which the host thread of `rank` waits. Prefers a rank that cannot join
/// the all-gather to one that is in another call.
Awaited awaitedByHost(const JobView &job, int64_t rank) {
  const RankView &view = job.at(rank);
  if (view.isSpeaking)
    return {Reason::OwnCode, rank};
  if (view.activity == HostActivity::InSynchronize) {
    const bool waits = llvm::any_of(view.queues, [](const QueueView &q) { return q.isWaiting; });
    return waits ? Awaited{Reason::Waiter} : Awaited{Reason::Idle, rank};
  }
  Awaited missing{Reason::HostSilent};
  for (int64_t peer = 0; peer < job.ranks(); ++peer) {
    const Awaited found = hostOf(job, peer);
    const bool hasCome = found.reason == Reason::Waiter && job.at(peer).activity == view.activity;
    if (!hasCome && (missing.rank < 0 || found.reason < missing.reason))
      missing = found;
  }
  return missing;
}

/// A wait of one of a rank's queues, or of its host thread if `queue` is null.
struct Wait {
  int64_t rank;
  const QueueView *queue;
  Awaited awaited;
};

std::vector<Wait> waitsOf(const JobView &job) {
  std::vector<Wait> waits;
  for (int64_t rank = 0; rank < job.ranks(); ++rank) {
    const RankView &view = job.at(rank);
    if (view.hasJoined() && !isInOwnCode(view))
      waits.push_back({rank, nullptr, awaitedByHost(job, rank)});
    for (const QueueView &queue : view.queues)
      if (queue.isWaiting)
        waits.push_back({rank, &queue, signalAwaitedIn(job, rank, *queue.current)});
  }
  return waits;
}

// -- Blame. --

/// The rank that the first line blames, or -1, and the text of that line.
struct Blame {
  int64_t rank = -1;
  std::string text;
  int64_t other = -1; ///< another rank whose line is relevant
};

/// Returns the time within which a live watchdog updates its heartbeat: four periods, but at least
/// half the timeout. Must match the period of ProcessGroup's watchdog.
uint64_t silenceNs(milliseconds timeout) {
  return inNs(
      std::max(timeout / 2, 4 * std::clamp(timeout / 16, milliseconds(5), milliseconds(50))));
}

/// Returns the time of the last heartbeat, or the start of the current activity if there was none
/// yet.
uint64_t lastSign(const RankView &rank) {
  return rank.heartbeatNs != 0 ? rank.heartbeatNs : rank.activitySinceNs;
}

/// Ranks of this host are first: if the rank that relays the state of other hosts is silent, their
/// ranks appear silent as well.
std::optional<Blame> blameSilentRank(const JobView &job, uint64_t silenceNs) {
  const auto key = [&](int64_t rank) {
    return std::pair(!job.isHere(rank), lastSign(job.at(rank)));
  };
  std::optional<int64_t> silent;
  for (int64_t rank = 0; rank < job.ranks(); ++rank) {
    const uint64_t sign = lastSign(job.at(rank));
    const bool isSilent = job.at(rank).hasJoined() && sign != 0 && job.nowNs() > sign &&
                          job.nowNs() - sign > silenceNs;
    if (isSilent && (!silent || key(rank) < key(*silent)))
      silent = rank;
  }
  if (!silent)
    return std::nullopt;
  return Blame{*silent, fmt::format("rank {} shows no sign of life for {} (stopped?): {}", *silent,
                                    durationText(job.nowNs() - lastSign(job.at(*silent))),
                                    job.rankText(*silent))};
}

/// Blames the queue that has spent the longest time in a command that waits for no other rank.
std::optional<Blame> blameWorkingQueue(const JobView &job) {
  const QueueView *longest = nullptr;
  int64_t itsRank = 0;
  for (int64_t rank = 0; rank < job.ranks(); ++rank)
    for (const QueueView &queue : job.at(rank).queues) {
      const bool works = job.at(rank).hasJoined() && queue.current && !queue.isWaiting;
      if (works && (!longest || queue.sinceNs < longest->sinceNs)) {
        longest = &queue;
        itsRank = rank;
      }
    }
  return longest ? std::optional(Blame{itsRank, job.text(itsRank, longest)}) : std::nullopt;
}

/// Describes the rank to blame and the wait that leads to it.
Blame blameFor(const JobView &job, const Wait &wait) {
  const auto [reason, rank] = wait.awaited;
  std::string text;
  if (reason == Reason::Lost)
    text = fmt::format("rank {} has gone past what is waited for: it was lost", rank);
  else if (reason == Reason::HostSilent)
    text = "all ranks have come, but the job's host does not answer";
  else
    text = job.text(rank, nullptr);
  if (reason == Reason::Idle)
    text += "; its queues do not move";
  if (wait.queue || wait.rank != rank)
    text += "; " + job.activityText(wait.rank, wait.queue);
  return {rank, std::move(text), wait.rank};
}

/// Without a Plan the waits are unknown, so this blames a rank that waits for nothing.
std::optional<Blame> blameOwnCode(const JobView &job) {
  for (int64_t rank = 0; rank < job.ranks(); ++rank)
    if (job.at(rank).hasJoined() && isInOwnCode(job.at(rank)) && !job.leadingQueue(rank))
      return Blame{rank, job.text(rank, nullptr)};
  return std::nullopt;
}

Blame blameNobody(const JobView &job) {
  Blame blame{-1, "the ranks wait for each other"};
  for (int64_t rank = 0; rank < std::min(job.ranks(), kMaxWaits); ++rank)
    blame.text += (rank == 0 ? ": " : "; ") + job.activityText(rank, job.leadingQueue(rank));
  if (job.ranks() > kMaxWaits)
    blame.text += "; and so on";
  return blame;
}

/// Used if no queue executes a command. A wait of another rank explains more than one of the rank
/// to blame.
Blame blameWaits(const JobView &job) {
  const std::vector<Wait> waits = waitsOf(job);
  auto key = [](const Wait &wait) {
    return std::pair(wait.awaited.reason, wait.rank == wait.awaited.rank);
  };
  const auto best = std::min_element(waits.begin(), waits.end(),
                                     [&](const Wait &a, const Wait &b) { return key(a) < key(b); });
  const Reason reason = best == waits.end() ? Reason::Unknown : best->awaited.reason;
  if (reason < Reason::Unknown)
    return blameFor(job, *best);
  const std::optional<Blame> ownCode = reason == Reason::Unknown ? blameOwnCode(job) : std::nullopt;
  return ownCode ? *ownCode : blameNobody(job);
}

/// Returns the first line and one line for each rank, or for the most relevant ranks.
JobCause causeOf(const JobView &job, const std::string &headline, const Blame &blame) {
  std::set<int64_t> listed;
  auto list = [&](int64_t rank) {
    if (rank >= 0 && listed.size() < kMaxReportedRanks)
      listed.insert(rank);
  };
  list(blame.rank);
  list(blame.other);
  llvm::for_each(llvm::seq<int64_t>(0, job.ranks()), list);
  std::string text = headline + ": " + blame.text;
  for (int64_t rank : listed)
    text += "\n  " + job.rankText(rank);
  const int64_t left = job.ranks() - static_cast<int64_t>(listed.size());
  if (left > 0)
    text += fmt::format("\n  and {}", counted(left, "more rank"));
  return {Status(StatusCode::TimedOut, text), blame.rank};
}

} // namespace

StallRule::StallRule(milliseconds timeout, milliseconds period)
    : timeout_(inNs(timeout)), tooLate_(inNs(std::max(4 * period, timeout / 4))) {}

bool StallRule::isStalled(uint64_t now, uint64_t progress, bool isBlocked, uint64_t blockedSince,
                          uint64_t underWay) {
  const bool wasAway = now - lastAsked_ > tooLate_; // true for the first call as well
  lastAsked_ = now;
  if (wasAway || progress != lastProgress_) {
    lastProgress_ = progress;
    lastMove_ = now;
    return false;
  }
  return isBlocked && now >= std::max(lastMove_, blockedSince) + timeout_ + underWay;
}

JobCause stallCause(const JobMemory &memory, const KnownPlans &plans, milliseconds timeout) {
  const JobView job(memory, plans);
  std::optional<Blame> blame = blameSilentRank(job, silenceNs(timeout));
  if (!blame)
    blame = blameWorkingQueue(job);
  return causeOf(job, fmt::format("no progress for {} ms", timeout.count()),
                 blame ? *blame : blameWaits(job));
}

JobCause deadlockCause(const JobMemory &memory, const KnownPlans &plans) {
  const JobView job(memory, plans);
  return causeOf(job, "deadlock: nothing can go on", blameWaits(job));
}

JobCause stopCause(const JobMemory &memory, const KnownPlans &plans, int64_t rank,
                   milliseconds timeout) {
  const JobView job(memory, plans);
  return causeOf(job, fmt::format("rank {} has been stopped for {} ms", rank, timeout.count()),
                 {rank, job.rankText(rank)});
}

} // namespace braid
