//===- runtime/job/stall_cause.cpp - detects a stalled job and finds the cause ----------------===//

#include "runtime/job/stall_cause.h"
#include "ir/counted.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace braid {

namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxReportedRanks = 16;
/// The maximum number of waits that the first line lists if ranks wait for each other.
constexpr int64_t kMaxWaits = 4;

// -- Blame. --

/// The first line of the message, and the rank that it blames, or -1.
struct Blame {
  int64_t rank = -1;
  std::string text;
};

/// Returns the time of the last heartbeat, or the start of the current activity if there is no
/// heartbeat yet.
uint64_t lastSign(const RankView &rank) {
  return rank.heartbeatNs != 0 ? rank.heartbeatNs : rank.activitySinceNs;
}

/// Blames a silent rank, preferably on this host: if the rank that relays the state of other hosts
/// is silent, the ranks on those hosts appear silent as well.
std::optional<Blame> blameSilentRank(const JobView &job, milliseconds timeout) {
  // A live watchdog updates its heartbeat within this time.
  const uint64_t silenceNs = inNs(std::max(timeout / 2, 4 * watchPeriod(timeout)));
  const auto key = [&](int64_t rank) {
    return std::pair(!job.memory().isHere(rank), lastSign(job.at(rank)));
  };
  std::optional<int64_t> silent;
  for (int64_t rank : job.memory().allRanks()) {
    const uint64_t sign = lastSign(job.at(rank));
    const bool isSilent = job.at(rank).hasJoined() && sign != 0 && job.nowNs() > sign &&
                          job.nowNs() - sign > silenceNs;
    if (isSilent && (!silent || key(rank) < key(*silent)))
      silent = rank;
  }
  if (!silent)
    return std::nullopt;
  return Blame{*silent, fmt::format("rank {} has been unresponsive for {} (is it stopped?): {}",
                                    *silent, durationText(job.nowNs() - lastSign(job.at(*silent))),
                                    job.rankText(*silent))};
}

/// Blames the rank with the longest-running command that waits for no other rank.
std::optional<Blame> blameWorkingQueue(const JobView &job) {
  const QueueView *longest = nullptr;
  int64_t itsRank = 0;
  for (int64_t rank : job.memory().allRanks())
    for (const QueueView &queue : job.at(rank).queues) {
      const bool works = job.at(rank).hasJoined() && queue.current && !queue.isWaiting;
      if (works && (!longest || queue.sinceNs < longest->sinceNs)) {
        longest = &queue;
        itsRank = rank;
      }
    }
  return longest ? std::optional(Blame{itsRank, job.text(itsRank, longest)}) : std::nullopt;
}

/// Returns the signal in `peer` that the endpoint `mine` of `plan` awaits, or null if unknown.
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

/// Returns true if the signal `id` is known to have completed.
bool hasPassed(const RankView &rank, const Plan &plan, const Command &signal, CommandId id) {
  const size_t queues = rank.queues.size();
  if (queues == 0 || (signal.stream >= queues && queues >= kQueueSlots))
    return false;
  const std::optional<CommandId> &lastDone = rank.queues[signal.stream % queues].lastDone;
  return lastDone && commandOf(&plan, *lastDone) && *lastDone >= id;
}

/// Returns the rank that has already sent the signal that `rank` awaits in command `id`, if any.
std::optional<int64_t> senderOfLostSignal(const JobView &job, int64_t rank, CommandId id) {
  const Plan *plan = job.plan(rank, id);
  const Endpoint *mine = endpointAwaitedIn(plan, id);
  if (!mine || mine->peer < 0 || mine->peer >= job.memory().ranks())
    return std::nullopt;
  const Plan *peer = job.plan(mine->peer, {id.run, plan->firstCommand});
  const Command *signal = peer ? signalFor(*plan, *mine, *peer) : nullptr;
  if (!signal)
    return std::nullopt;
  const auto index = static_cast<uint32_t>(signal - peer->commands.data());
  const CommandId sent{id.run, peer->firstCommand + index};
  return hasPassed(job.at(mine->peer), *peer, *signal, sent) ? std::optional(mine->peer)
                                                             : std::nullopt;
}

std::optional<Blame> blameLostSignal(const JobView &job) {
  for (int64_t rank : job.memory().allRanks())
    for (const QueueView &queue : job.at(rank).queues)
      if (queue.isWaiting)
        if (const auto sender = senderOfLostSignal(job, rank, *queue.current))
          return Blame{
              *sender,
              fmt::format("rank {} has already signaled rank {}, so the signal was lost; {}",
                          *sender, rank, job.activityText(rank, &queue))};
  return std::nullopt;
}

/// Returns true if another rank on this host has joined an all-gather that `rank` has not joined.
bool isLate(const JobView &job, int64_t rank) {
  const JobMemory &memory = job.memory();
  return memory.isHere(rank) && llvm::any_of(memory.ranksOf(memory.host()), [&](int64_t other) {
           return static_cast<int32_t>(job.at(other).gathers - job.at(rank).gathers) > 0;
         });
}

/// Reasons why a rank waits for no other rank, starting with the best explanation of a stall.
enum class Idle { AskingHost, Absent, OwnCode, Left, Queues, No };

Idle idleOf(const JobView &job, int64_t rank) {
  const RankView &view = job.at(rank);
  if (!view.hasJoined())
    return view.state == RankState::Absent ? Idle::Absent : Idle::Left;
  if (job.leadingQueue(rank)) // a queue is waiting
    return Idle::No;
  if (view.activity == HostActivity::AskingHost)
    return Idle::AskingHost;
  if (view.activity == HostActivity::OwnCode)
    return Idle::OwnCode;
  if (view.activity == HostActivity::InSynchronize)
    return Idle::Queues;
  return isLate(job, rank) ? Idle::OwnCode : Idle::No;
}

/// Blames the idle rank that best explains the stall; among equals, the one with the fewest runs. A
/// rank that waits for the process that hosts the job is blamed, because its request may be late.
std::optional<Blame> blameIdleRank(const JobView &job) {
  auto key = [&](int64_t rank) { return std::pair(idleOf(job, rank), job.at(rank).runs); };
  int64_t first = 0;
  for (int64_t rank : job.memory().allRanks())
    if (key(rank) < key(first))
      first = rank;
  return idleOf(job, first) == Idle::No ? std::nullopt
                                        : std::optional(Blame{first, job.text(first, nullptr)});
}

std::optional<Blame> blameNobody(const JobView &job) {
  const int64_t ranks = job.memory().ranks();
  Blame nobody{-1, "the ranks are waiting for each other"};
  for (int64_t rank = 0; rank < std::min(ranks, kMaxWaits); ++rank)
    nobody.text += (rank == 0 ? ": " : "; ") + job.activityText(rank, job.leadingQueue(rank));
  if (ranks > kMaxWaits)
    nobody.text += "; and so on";
  return nobody;
}

} // namespace

StallRule::StallRule(milliseconds timeout, milliseconds period)
    : timeout_(inNs(timeout)), tooLate_(inNs(std::max(4 * period, timeout / 4))) {}

bool StallRule::isStalled(uint64_t now, uint64_t progress, bool isBlocked, uint64_t blockedSince,
                          uint64_t underWay) {
  const bool wasAway = now - lastAsked_ > tooLate_; // also true on the first call
  lastAsked_ = now;
  if (wasAway || progress != lastProgress_) {
    lastProgress_ = progress;
    lastMove_ = now;
    return false;
  }
  return isBlocked && now >= std::max(lastMove_, blockedSince) + timeout_ + underWay;
}

JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::optional<milliseconds> timeout) {
  const JobView job(memory, plans);
  std::optional<Blame> blame = timeout ? blameSilentRank(job, *timeout) : std::nullopt;
  for (auto *next : {blameWorkingQueue, blameLostSignal, blameIdleRank, blameNobody})
    if (!blame)
      blame = next(job);
  std::set<int64_t> listed;
  if (blame->rank >= 0)
    listed.insert(blame->rank);
  for (int64_t rank : memory.allRanks())
    if (listed.size() < kMaxReportedRanks)
      listed.insert(rank);
  std::string text = (timeout ? fmt::format("no progress for {} ms", timeout->count())
                              : "deadlock: no rank can make progress") +
                     ": " + blame->text;
  for (int64_t rank : listed)
    text += "\n  " + job.rankText(rank);
  const int64_t left = memory.ranks() - static_cast<int64_t>(listed.size());
  if (left > 0)
    text += fmt::format("\n  and {}", counted(left, "more rank"));
  return {Status(StatusCode::TimedOut, text), blame->rank};
}

} // namespace braid
