//===- runtime/job/stall_cause.cpp - the cause of a job that stands still ---------------------===//

#include "runtime/job/stall_cause.h"
#include "ir/counted.h"
#include "runtime/job/job_view.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace braid {

namespace {

constexpr size_t kMaxReportedRanks = 16;
/// The first line names this many waits of a cycle.
constexpr size_t kMaxWaitsOfCycle = 4;

bool isInOwnCode(const RankSnapshot &rank) {
  return rank.activity == HostActivity::OwnCode || rank.activity == HostActivity::Preparing;
}

// -- Waits. --

/// A queue of a rank that waits, or its host thread.
struct Waiter {
  static constexpr int64_t kHost = -1;
  int64_t rank = 0;
  int64_t queue = kHost;
  auto operator<=>(const Waiter &) const = default;
};

/// A waiter waits for one of these. The one that tells most about a stall is the first.
enum class Reason {
  Gone,       ///< a rank that takes no part (any more)
  OwnCode,    ///< a host thread that waits for nobody, or has not said its part
  Lost,       ///< a signal or an event that its rank has gone past
  Idle,       ///< a queue that has nothing to do, or does not do it
  HostSilent, ///< the job's host, after all ranks have come to a gathering
  Waiter,     ///< another waiter
  Unknown,    ///< a command that no Plan names
};

/// The waiter that another one waits for; or, for another reason, the host thread of the rank to
/// blame, with rank -1 if it is none.
struct Awaited {
  Reason reason = Reason::Unknown;
  Waiter at = {-1};
};

/// All waits of a job in which no queue works. A chain of waits leads to a reason other than
/// Waiter, or around a cycle.
class Waits {
public:
  explicit Waits(const JobView &job) : job_(job) {
    for (int64_t rank = 0; rank < job.ranks(); ++rank) {
      const RankSnapshot &snapshot = job.at(rank);
      for (size_t i = 0; i < snapshot.queues.size(); ++i)
        if (snapshot.queues[i].isWaiting)
          waits_[{rank, static_cast<int64_t>(i)}] = awaitedBy(rank, *snapshot.queues[i].current);
      if (snapshot.state == RankState::Joined && !isInOwnCode(snapshot))
        waits_[{rank}] = awaitedByHost(rank);
    }
  }

  using Wait = std::pair<const Waiter, Awaited>;
  /// The wait with the most telling reason, or null. A wait of the rank to blame itself comes last.
  const Wait *mostTelling() const {
    auto key = [](const Wait &wait) {
      return std::pair(wait.second.reason, wait.first.rank == wait.second.at.rank);
    };
    const Wait *best = nullptr;
    for (const Wait &wait : waits_)
      if (wait.second.reason < Reason::Waiter && (!best || key(wait) < key(*best)))
        best = &wait;
    return best;
  }

  /// Waiters each of which waits for the next one, and the last for the first; or none.
  std::vector<Waiter> cycle() const {
    for (const auto &[start, awaited] : waits_) {
      Waiter at = start;
      size_t steps = 0;
      for (; steps <= waits_.size() && waits_.at(at).reason == Reason::Waiter; ++steps)
        at = waits_.at(at).at;
      if (steps <= waits_.size())
        continue;
      std::vector<Waiter> cycle = {at};
      while (waits_.at(cycle.back()).at != at)
        cycle.push_back(waits_.at(cycle.back()).at);
      std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
      return cycle;
    }
    return {};
  }

private:
  Awaited awaitedBy(int64_t rank, CommandId id) const {
    const Plan *plan = job_.plan(rank, id);
    const Command *command = commandOf(plan, id);
    if (command && command->kind == CommandKind::Await && command->endpoint != kNone)
      return signalOf(*plan, plan->endpoints[command->endpoint], id.run);
    if (command && command->kind == CommandKind::WaitEvent)
      return recordOf(*plan, id);
    return {};
  }

  /// An await waits for the signal of the endpoint on its peer that matches its own.
  Awaited signalOf(const Plan &plan, const Endpoint &mine, uint32_t run) const {
    const bool isRank = mine.peer >= 0 && mine.peer < job_.ranks();
    const Plan *peer = isRank ? job_.plan(mine.peer, {run, plan.firstCommand}) : nullptr;
    for (uint32_t i = 0; peer && i < peer->commands.size(); ++i) {
      const Command &command = peer->commands[i];
      if (command.kind == CommandKind::Signal &&
          isMatch(peer->endpoints[command.endpoint], mine, plan.rank))
        return completionOf(*peer, {run, peer->firstCommand + i}, command.stream);
    }
    return {};
  }

  static bool isMatch(const Endpoint &theirs, const Endpoint &mine, int64_t myRank) {
    return theirs.peer == myRank && theirs.channel == mine.channel &&
           theirs.sequence == mine.sequence && theirs.direction != mine.direction;
  }

  Awaited recordOf(const Plan &plan, CommandId wait) const {
    const uint32_t index = wait.command - plan.firstCommand;
    for (uint32_t i = index; i-- > 0;)
      if (plan.commands[i].kind == CommandKind::Record &&
          plan.commands[i].event == plan.commands[index].event)
        return completionOf(plan, {wait.run, plan.firstCommand + i}, plan.commands[i].stream);
    return {};
  }

  /// A waiter waits for `wanted`, a command of `plan`: this says what its rank does instead.
  Awaited completionOf(const Plan &plan, CommandId wanted, uint32_t stream) const {
    const RankSnapshot &snapshot = job_.at(plan.rank);
    const std::optional<uint32_t> queue = queueOf(stream, snapshot.queues.size());
    if (hasCompleted(plan, snapshot, queue, wanted))
      return {Reason::Lost, {plan.rank}};
    if (snapshot.state != RankState::Joined)
      return {Reason::Gone, {plan.rank}};
    if (queue && snapshot.queues[*queue].isWaiting)
      return {Reason::Waiter, {plan.rank, *queue}};
    if (hasReached({snapshot.runs, 0}, {wanted.run, 0}) && !isInOwnCode(snapshot))
      return {Reason::Idle, {plan.rank}};
    return host(plan.rank);
  }

  /// The queue says so if its last command was one of that Plan, else the flight ring does.
  static bool hasCompleted(const Plan &plan, const RankSnapshot &rank,
                           std::optional<uint32_t> queue, CommandId wanted) {
    const std::optional<CommandId> done = queue ? rank.queues[*queue].lastDone : std::nullopt;
    if (done && commandOf(&plan, *done))
      return hasReached(*done, wanted);
    return llvm::any_of(rank.flight, [&](const FlightSnapshot &entry) {
      return entry.id == wanted && entry.endNs != 0;
    });
  }

  Awaited host(int64_t rank) const {
    const RankSnapshot &snapshot = job_.at(rank);
    if (snapshot.state != RankState::Joined)
      return {Reason::Gone, {rank}};
    const bool waits = !isInOwnCode(snapshot) && !snapshot.isSpeaking;
    return {waits ? Reason::Waiter : Reason::OwnCode, {rank}};
  }

  Awaited awaitedByHost(int64_t rank) const {
    const RankSnapshot &snapshot = job_.at(rank);
    if (snapshot.isSpeaking)
      return {Reason::OwnCode, {rank}};
    if (snapshot.activity != HostActivity::InSynchronize)
      return rankThatHasNotCome(snapshot.activity);
    for (size_t i = 0; i < snapshot.queues.size(); ++i)
      if (snapshot.queues[i].isWaiting)
        return {Reason::Waiter, {rank, static_cast<int64_t>(i)}};
    return {Reason::Idle, {rank}};
  }

  /// All ranks are to come to `gathering`. A rank that cannot is named first, then one that does
  /// something else.
  Awaited rankThatHasNotCome(HostActivity gathering) const {
    Awaited missing{Reason::HostSilent, {-1}};
    for (int64_t rank = 0; rank < job_.ranks(); ++rank) {
      const Awaited found = host(rank);
      const bool hasCome = found.reason == Reason::Waiter && job_.at(rank).activity == gathering;
      if (!hasCome && (missing.at.rank < 0 || found.reason < missing.reason))
        missing = found;
    }
    return missing;
  }

  const JobView &job_;
  std::map<Waiter, Awaited> waits_;
};

// -- Blame. --

/// The rank that the first line blames, or -1, and that line.
struct Blame {
  int64_t rank = -1;
  std::string text;
  std::vector<int64_t> others = {}; ///< further ranks whose lines matter
};

/// A watchdog that is alive gives a sign within this. It looks sixteen times within the timeout,
/// but not more often than it could on a loaded machine, nor more seldom than a person would like
/// to wait.
uint64_t silenceNs(std::chrono::milliseconds timeout) {
  const int64_t periodMs = std::clamp<int64_t>(timeout.count() / 16, 5, 50);
  return static_cast<uint64_t>(std::max(timeout.count() / 2, 4 * periodMs)) * 1000000;
}

/// Before its first heartbeat a rank was last alive when it took up what it does.
uint64_t lastSign(const RankSnapshot &rank) {
  return rank.heartbeatNs != 0 ? rank.heartbeatNs : rank.activitySinceNs;
}

/// The first rank of this host tells what other hosts' ranks do: if that is silent, so are they.
std::optional<Blame> blameSilentRank(const JobView &job, uint64_t silenceNs) {
  const auto key = [&](int64_t rank) {
    return std::pair(!job.isHere(rank), lastSign(job.at(rank)));
  };
  std::optional<int64_t> silent;
  for (int64_t rank = 0; rank < job.ranks(); ++rank) {
    const uint64_t sign = lastSign(job.at(rank));
    const bool isSilent = job.at(rank).state == RankState::Joined && sign != 0 &&
                          job.nowNs() > sign && job.nowNs() - sign > silenceNs;
    if (isSilent && (!silent || key(rank) < key(*silent)))
      silent = rank;
  }
  if (!silent)
    return std::nullopt;
  return Blame{*silent, fmt::format("rank {} shows no sign of life for {} (stopped?): {}", *silent,
                                    durationText(job.nowNs() - lastSign(job.at(*silent))),
                                    job.rankText(*silent))};
}

/// The queue that has been longest in a command that waits for nobody.
std::optional<Blame> blameWorkingQueue(const JobView &job) {
  const QueueSnapshot *longest = nullptr;
  int64_t itsRank = 0;
  for (int64_t rank = 0; rank < job.ranks(); ++rank)
    for (const QueueSnapshot &queue : job.at(rank).queues) {
      const bool works =
          job.at(rank).state == RankState::Joined && queue.current && !queue.isWaiting;
      if (works && (!longest || queue.sinceNs < longest->sinceNs)) {
        longest = &queue;
        itsRank = rank;
      }
    }
  if (!longest)
    return std::nullopt;
  return Blame{itsRank, job.queueText(itsRank, *longest)};
}

/// Without a Plan nobody knows who waits for whom; somebody who waits for nobody stands out.
std::optional<Blame> blameOwnCode(const JobView &job) {
  for (int64_t rank = 0; rank < job.ranks(); ++rank)
    if (job.at(rank).state == RankState::Joined && isInOwnCode(job.at(rank)) &&
        !job.leadingQueue(rank))
      return Blame{rank, job.hostText(rank)};
  return std::nullopt;
}

std::string waitText(const JobView &job, Waiter waiter) {
  return waiter.queue == Waiter::kHost
             ? job.activityText(waiter.rank)
             : job.waitText(waiter.rank,
                            job.at(waiter.rank).queues[static_cast<size_t>(waiter.queue)]);
}

/// The line says what the rank to blame does, and which wait leads to it.
Blame blameReason(const JobView &job, Waiter waiter, Awaited awaited) {
  const int64_t rank = awaited.at.rank;
  std::string text;
  if (awaited.reason == Reason::Lost)
    text = fmt::format("rank {} has gone past what is waited for: it was lost", rank);
  else if (awaited.reason == Reason::HostSilent)
    text = "all ranks have come, but the job's host does not answer";
  else
    text = job.hostText(rank);
  if (awaited.reason == Reason::Idle)
    text += "; its queues do not move";
  if (waiter != awaited.at)
    text += "; " + waitText(job, waiter);
  return {rank, std::move(text), {waiter.rank}};
}

Blame blameCycle(const JobView &job, const std::vector<Waiter> &cycle) {
  Blame blame{-1, "the ranks wait for each other"};
  for (size_t i = 0; i < cycle.size(); ++i) {
    if (i < kMaxWaitsOfCycle)
      blame.text += (i == 0 ? ": " : "; ") + waitText(job, cycle[i]);
    blame.others.push_back(cycle[i].rank);
  }
  if (cycle.size() > kMaxWaitsOfCycle)
    blame.text += fmt::format("; and so on, {} waits in all", cycle.size());
  return blame;
}

Blame blame(const JobView &job, std::chrono::milliseconds timeout) {
  if (std::optional<Blame> silent = blameSilentRank(job, silenceNs(timeout)))
    return *silent;
  if (std::optional<Blame> working = blameWorkingQueue(job))
    return *working;
  const Waits waits(job);
  if (const Waits::Wait *wait = waits.mostTelling())
    return blameReason(job, wait->first, wait->second);
  if (const std::vector<Waiter> cycle = waits.cycle(); !cycle.empty())
    return blameCycle(job, cycle);
  return blameOwnCode(job).value_or(Blame{-1, "all ranks wait"});
}

/// The first line, and one for each rank, or for those that matter most.
JobCause causeOf(const JobView &job, Blame blame) {
  std::set<int64_t> listed;
  auto list = [&](int64_t rank) {
    if (rank >= 0 && listed.size() < kMaxReportedRanks)
      listed.insert(rank);
  };
  list(blame.rank);
  llvm::for_each(blame.others, list);
  llvm::for_each(llvm::seq<int64_t>(0, job.ranks()), list);
  for (int64_t rank : listed)
    blame.text += "\n  " + job.rankText(rank);
  const int64_t left = job.ranks() - static_cast<int64_t>(listed.size());
  if (left > 0)
    blame.text += fmt::format("\n  and {}", counted(left, "more rank"));
  return {Status(StatusCode::TimedOut, blame.text), blame.rank};
}

} // namespace

JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::chrono::milliseconds timeout) {
  const JobView job(memory, plans);
  Blame found = blame(job, timeout);
  found.text = fmt::format("no progress for {} ms: {}", timeout.count(), found.text);
  return causeOf(job, found);
}

JobCause stopCause(const JobMemory &memory, const KnownPlans &plans, int64_t rank,
                   std::chrono::milliseconds timeout) {
  const JobView job(memory, plans);
  return causeOf(job, {rank, fmt::format("rank {} has been stopped for {} ms: {}", rank,
                                         timeout.count(), job.rankText(rank))});
}

} // namespace braid
