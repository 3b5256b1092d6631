//===- runtime/job/job_report.cpp - what the ranks of a job are doing, in words ---------------===//

#include "runtime/job/job_report.h"
#include "runtime/execute/pending_report.h"
#include "runtime/job/job_snapshot.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace braid {

namespace {

constexpr uint64_t kNsPerMs = 1000000;
constexpr size_t kMaxReportedRanks = 16;
/// A watchdog looks this many times within the timeout, but not more often than it could on a
/// loaded machine, nor more seldom than a person would like to wait.
constexpr int64_t kLooksPerTimeout = 16;
constexpr int64_t kLeastPeriodMs = 5, kMostPeriodMs = 50;

std::string durationText(uint64_t now, uint64_t since) {
  const uint64_t ms = now > since ? (now - since) / kNsPerMs : 0;
  if (ms < 100)
    return fmt::format("{} ms", ms);
  return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

/// ", for 0.4 s", or nothing if nobody wrote down since when.
std::string lasting(uint64_t now, uint64_t since) {
  return since == 0 ? "" : ", for " + durationText(now, since);
}

/// What the host thread does, after "rank 2 ".
const char *phrase(const RankSnapshot &rank) {
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

/// What ranks do, with the Plans to name it.
class Job {
public:
  Job(const JobMemory &memory, const KnownPlans &plans)
      : memory_(memory), plans_(plans), now_(monotonicNs()), ranks_(memory.ranks()) {}

  uint64_t now() const { return now_; }
  int64_t ranks() const { return static_cast<int64_t>(ranks_.size()); }
  /// On this host.
  bool isHere(int64_t rank) const { return memory_.isHere(rank); }
  const Plan *plan(int64_t rank, CommandId id) const { return plans_.find(rank, id.command); }
  const RankSnapshot &at(int64_t rank) const {
    std::optional<RankSnapshot> &snapshot = ranks_[static_cast<size_t>(rank)];
    if (!snapshot)
      snapshot = snapshotOf(memory_.slot(rank));
    return *snapshot;
  }
  const QueueSnapshot &queue(int64_t rank, size_t queue) const { return at(rank).queues[queue]; }

  /// "\"matmul ...\" (trip 3) at ag.braid:14:9, run 2".
  std::string commandText(int64_t rank, CommandId id) const {
    const Plan *plan = this->plan(rank, id);
    const Command *command = commandOf(plan, id);
    if (!command || command->origin >= plan->origins.size())
      return fmt::format("command {}, run {}", id.command, id.run);
    return fmt::format("{}, run {}", describeOrigin(*plan, command->origin), id.run);
  }

  /// "rank 1 waits for rank 2 in ..., run 1 (the flag is 0, wanted 1)".
  std::string waitText(int64_t rank, size_t index) const {
    const QueueSnapshot &queue = this->queue(rank, index);
    const CommandId id = *queue.current;
    const Plan *plan = this->plan(rank, id);
    const Command *command = commandOf(plan, id);
    if (!command)
      return fmt::format("rank {} waits in {}", rank, commandText(rank, id));
    const Tag tag{plan, id.command - plan->firstCommand, id.run};
    std::string text = describe(BlockedHead{rank, {tag, command->stream}});
    if (command->kind == CommandKind::Await)
      text += fmt::format(" (the flag is {}, wanted {})", queue.flagValue, queue.wantedValue);
    return text;
  }

  /// What a queue is in, with since when.
  std::string queueText(int64_t rank, size_t index) const {
    const QueueSnapshot &queue = this->queue(rank, index);
    const std::string text =
        queue.isWaiting ? waitText(rank, index)
                        : fmt::format("rank {} is in {}", rank, commandText(rank, *queue.current));
    return text + lasting(now_, queue.sinceNs);
  }

  std::optional<size_t> leadingQueue(int64_t rank) const {
    const QueueSnapshot *best = braid::leadingQueue(at(rank), [&](CommandId id) {
      const Command *command = commandOf(plan(rank, id), id);
      return command && command->kind == CommandKind::WaitEvent;
    });
    return best ? std::optional<size_t>(best - at(rank).queues.data()) : std::nullopt;
  }

  /// "; last completed: ..., run 2": of that queue, else of the rank.
  std::string lastCompleted(int64_t rank, std::optional<size_t> index) const {
    if (index && queue(rank, *index).lastDone)
      return "; last completed: " + commandText(rank, *queue(rank, *index).lastDone);
    std::optional<CommandId> last;
    uint64_t lastNs = 0;
    for (const FlightSnapshot &entry : flightOf(memory_.slot(rank)))
      if (entry.endNs >= lastNs && entry.endNs != 0) {
        last = entry.id;
        lastNs = entry.endNs;
      }
    for (const QueueSnapshot &each : at(rank).queues)
      if (lastNs == 0 && each.lastDone && (!last || hasReached(*each.lastDone, *last)))
        last = each.lastDone;
    return last ? "; last completed: " + commandText(rank, *last) : "; nothing completed yet";
  }

  /// One line.
  std::string rankText(int64_t rank) const {
    const RankSnapshot &snapshot = at(rank);
    if (std::optional<size_t> queue = leadingQueue(rank))
      return queueText(rank, *queue) + lastCompleted(rank, queue);
    std::string text = fmt::format("rank {} {}", rank, phrase(snapshot));
    if (snapshot.state == RankState::Absent)
      return text;
    if (snapshot.state == RankState::Joined)
      text += lasting(now_, snapshot.activitySinceNs);
    return text + lastCompleted(rank, std::nullopt);
  }

  bool isInFlightRing(int64_t rank, CommandId id) const {
    const std::vector<FlightSnapshot> flight = flightOf(memory_.slot(rank));
    return std::any_of(flight.begin(), flight.end(), [&](const FlightSnapshot &entry) {
      return entry.id == id && entry.endNs != 0;
    });
  }

private:
  const JobMemory &memory_;
  const KnownPlans &plans_;
  uint64_t now_;
  mutable std::vector<std::optional<RankSnapshot>> ranks_; ///< taken when first looked at
};

// -- Who waits for whom. --

/// Something that waits: a queue of a rank, or its host thread.
struct Waiter {
  static constexpr int64_t kHost = -1;
  int64_t rank = 0;
  int64_t queue = kHost;
  auto operator<=>(const Waiter &) const = default;
};

/// Why a chain of waits ends, the most telling one first.
enum class EndKind {
  Gone,       ///< at a rank that takes no part (any more)
  OwnCode,    ///< at a host thread that waits for nobody, or has not said its part
  Working,    ///< at a queue that waits for nobody
  Lost,       ///< at a signal that its rank has gone past
  Idle,       ///< at a queue that has nothing to do, or does not do it
  HostSilent, ///< at a gathering that all ranks have come to
  Cycle,      ///< where it began
  Unknown,    ///< at a command that no Plan names
};

/// A step from a waiter: to the next one, or to the end at `rank`.
struct Step {
  std::optional<Waiter> next;
  EndKind end = EndKind::Unknown;
  int64_t rank = -1;

  static Step to(Waiter next) { return {next, EndKind::Unknown, next.rank}; }
  static Step endAt(EndKind end, int64_t rank) { return {std::nullopt, end, rank}; }
};

/// The end of a chain, and the waiters on the way to it; of a cycle, those on it.
struct Verdict {
  EndKind end = EndKind::Unknown;
  int64_t rank = -1;
  std::vector<Waiter> waiters; ///< never empty
};

class WaitsFor {
public:
  explicit WaitsFor(const Job &job) : job_(job) {}

  /// The most telling end of all chains; the first one, by rank and queue, of its kind.
  std::optional<Verdict> verdict() const {
    std::optional<Verdict> best;
    std::map<Waiter, size_t> seen; // on which walk
    size_t walk = 0;
    for (Waiter start : starts())
      if (std::optional<Verdict> found = follow(start, ++walk, seen))
        if (!best || found->end < best->end)
          best = std::move(found);
    return best;
  }

private:
  std::vector<Waiter> starts() const {
    std::vector<Waiter> waiters;
    for (int64_t rank = 0; rank < job_.ranks(); ++rank) {
      const RankSnapshot &snapshot = job_.at(rank);
      for (size_t i = 0; i < snapshot.queues.size(); ++i)
        if (snapshot.queues[i].isWaiting)
          waiters.push_back({rank, static_cast<int64_t>(i)});
      if (snapshot.state == RankState::Joined && !isInOwnCode(snapshot))
        waiters.push_back({rank, Waiter::kHost});
    }
    return waiters;
  }

  static bool isInOwnCode(const RankSnapshot &rank) {
    return rank.activity == HostActivity::OwnCode || rank.activity == HostActivity::Preparing;
  }

  /// Nothing if another walk has been along here before.
  std::optional<Verdict> follow(Waiter at, size_t walk, std::map<Waiter, size_t> &seen) const {
    std::vector<Waiter> path;
    for (;;) {
      auto [known, isNew] = seen.try_emplace(at, walk);
      if (!isNew && known->second != walk)
        return std::nullopt;
      if (!isNew) {
        path.erase(path.begin(), std::find(path.begin(), path.end(), at));
        return Verdict{EndKind::Cycle, -1, path};
      }
      path.push_back(at);
      const Step step = stepFrom(at);
      if (!step.next)
        return Verdict{step.end, step.rank, path};
      at = *step.next;
    }
  }

  Step stepFrom(Waiter at) const {
    if (at.queue == Waiter::kHost)
      return fromHost(at.rank);
    const CommandId id = *job_.queue(at.rank, static_cast<size_t>(at.queue)).current;
    const Plan *plan = job_.plan(at.rank, id);
    const Command *command = commandOf(plan, id);
    if (command && command->kind == CommandKind::Await && command->endpoint != kNone)
      return fromAwait(*plan, plan->endpoints[command->endpoint], id.run);
    if (command && command->kind == CommandKind::WaitEvent)
      return fromWaitEvent(*plan, id);
    return Step::endAt(EndKind::Unknown, at.rank);
  }

  /// An await waits for the signal of the endpoint on its peer that matches its own.
  Step fromAwait(const Plan &plan, const Endpoint &mine, uint32_t run) const {
    if (mine.peer < 0 || mine.peer >= job_.ranks())
      return Step::endAt(EndKind::Unknown, plan.rank);
    if (const Plan *peer = job_.plan(mine.peer, {run, plan.firstCommand}))
      for (uint32_t i = 0; i < peer->commands.size(); ++i) {
        const Command &command = peer->commands[i];
        if (command.kind == CommandKind::Signal &&
            isMatch(peer->endpoints[command.endpoint], mine, plan.rank))
          return toProducer(*peer, {run, peer->firstCommand + i}, command.stream);
      }
    return Step::endAt(EndKind::Unknown, plan.rank);
  }

  static bool isMatch(const Endpoint &theirs, const Endpoint &mine, int64_t myRank) {
    return theirs.peer == myRank && theirs.channel == mine.channel &&
           theirs.sequence == mine.sequence && theirs.direction != mine.direction;
  }

  Step fromWaitEvent(const Plan &plan, CommandId wait) const {
    const uint32_t index = wait.command - plan.firstCommand;
    for (uint32_t i = index; i-- > 0;)
      if (plan.commands[i].kind == CommandKind::Record &&
          plan.commands[i].event == plan.commands[index].event)
        return toProducer(plan, {wait.run, plan.firstCommand + i}, plan.commands[i].stream);
    return Step::endAt(EndKind::Unknown, plan.rank);
  }

  /// On to whatever keeps the rank of `plan` from completing `wanted`, a command of it.
  Step toProducer(const Plan &plan, CommandId wanted, uint32_t stream) const {
    const int64_t rank = plan.rank;
    const RankSnapshot &snapshot = job_.at(rank);
    const std::optional<uint32_t> queue = queueOf(stream, snapshot.queues.size());
    const std::optional<CommandId> done = queue ? snapshot.queues[*queue].lastDone : std::nullopt;
    const bool isOfPlan = done && commandOf(&plan, *done);
    if ((isOfPlan && hasReached(*done, wanted)) || (!isOfPlan && job_.isInFlightRing(rank, wanted)))
      return Step::endAt(EndKind::Lost, rank);
    if (snapshot.state != RankState::Joined)
      return Step::endAt(EndKind::Gone, rank);
    if (queue && snapshot.queues[*queue].isWaiting)
      return Step::to({rank, *queue});
    if (queue && snapshot.queues[*queue].current)
      return Step::endAt(EndKind::Working, rank);
    if (hasReached({snapshot.runs, 0}, {wanted.run, 0}) && !isInOwnCode(snapshot))
      return Step::endAt(EndKind::Idle, rank);
    return Step::to({rank, Waiter::kHost});
  }

  Step fromHost(int64_t rank) const {
    const RankSnapshot &snapshot = job_.at(rank);
    if (snapshot.state != RankState::Joined)
      return Step::endAt(EndKind::Gone, rank);
    if (isInOwnCode(snapshot) || snapshot.isSpeaking)
      return Step::endAt(EndKind::OwnCode, rank);
    if (snapshot.activity != HostActivity::InSynchronize)
      return toWhoIsMissing(rank);
    for (size_t i = 0; i < snapshot.queues.size(); ++i)
      if (snapshot.queues[i].isWaiting)
        return Step::to({rank, static_cast<int64_t>(i)});
    return Step::endAt(EndKind::Idle, rank);
  }

  /// From a rank that waits for all ranks to come, to one that has not.
  Step toWhoIsMissing(int64_t rank) const {
    std::optional<int64_t> missing;
    auto key = [&](int64_t other) {
      const RankSnapshot &snapshot = job_.at(other);
      const bool isFree = isInOwnCode(snapshot) || snapshot.isSpeaking;
      return snapshot.state != RankState::Joined ? 0 : isFree ? 1 : 2;
    };
    for (int64_t other = 0; other < job_.ranks(); ++other) {
      const RankSnapshot &snapshot = job_.at(other);
      const bool isHere = snapshot.state == RankState::Joined && !snapshot.isSpeaking &&
                          snapshot.activity == job_.at(rank).activity;
      if (!isHere && (!missing || key(other) < key(*missing)))
        missing = other;
    }
    if (!missing)
      return Step::endAt(EndKind::HostSilent, -1);
    return Step::to({*missing, Waiter::kHost});
  }

  const Job &job_;
};

// -- Who is to blame. --

/// The first line, after "no progress for 300 ms: ", and whom it names.
struct Blame {
  int64_t rank = -1;
  std::string text;
  std::vector<int64_t> shown; ///< ranks whose lines matter most
};

class Stall {
public:
  Stall(const Job &job, std::chrono::milliseconds timeout) : job_(job), timeout_(timeout) {}

  JobCause cause() const {
    const Blame blame = find();
    return cause(blame, fmt::format("no progress for {} ms: {}", timeout_.count(), blame.text));
  }

  /// If it is known from elsewhere that `rank` is stopped.
  JobCause causeIfStopped(int64_t rank) const {
    return cause({rank, "", {rank}}, fmt::format("rank {} has been stopped for {} ms: {}", rank,
                                                 timeout_.count(), job_.rankText(rank)));
  }

private:
  JobCause cause(const Blame &blame, std::string text) const {
    for (int64_t rank : listed(blame))
      text += "\n  " + job_.rankText(rank);
    const auto left = job_.ranks() - static_cast<int64_t>(kMaxReportedRanks);
    if (left > 0)
      text += fmt::format("\n  and {} more rank{}", left, left == 1 ? "" : "s");
    return {Status(StatusCode::TimedOut, std::move(text)), blame.rank};
  }

  Blame find() const {
    if (std::optional<Blame> blame = silentRank())
      return *blame;
    if (std::optional<Blame> blame = workingQueue())
      return *blame;
    if (std::optional<Verdict> verdict = WaitsFor(job_).verdict())
      if (verdict->end != EndKind::Unknown)
        return blameOf(*verdict);
    if (std::optional<Blame> blame = ownCode())
      return *blame;
    return {-1, "all ranks wait", {}};
  }

  uint64_t silenceNs() const {
    const int64_t periodMs =
        std::clamp(timeout_.count() / kLooksPerTimeout, kLeastPeriodMs, kMostPeriodMs);
    return static_cast<uint64_t>(std::max(timeout_.count() / 2, 4 * periodMs)) * kNsPerMs;
  }

  /// Before its first heartbeat a rank was last alive when it took up what it does.
  static uint64_t lastSign(const RankSnapshot &rank) {
    return rank.heartbeatNs != 0 ? rank.heartbeatNs : rank.activitySinceNs;
  }

  /// What other hosts' ranks do is told by the first rank of this one: if that is silent, so are
  /// they.
  std::optional<Blame> silentRank() const {
    const auto key = [&](int64_t rank) {
      return std::pair(!job_.isHere(rank), lastSign(job_.at(rank)));
    };
    std::optional<int64_t> silent;
    for (int64_t rank = 0; rank < job_.ranks(); ++rank) {
      const uint64_t sign = lastSign(job_.at(rank));
      const bool isSilent = job_.at(rank).state == RankState::Joined && sign != 0 &&
                            job_.now() > sign && job_.now() - sign > silenceNs();
      if (isSilent && (!silent || key(rank) < key(*silent)))
        silent = rank;
    }
    if (!silent)
      return std::nullopt;
    return Blame{*silent,
                 fmt::format("rank {} shows no sign of life for {} (stopped?): {}", *silent,
                             durationText(job_.now(), lastSign(job_.at(*silent))),
                             job_.rankText(*silent)),
                 {*silent}};
  }

  std::optional<Blame> workingQueue() const {
    std::optional<std::pair<int64_t, size_t>> longest;
    for (int64_t rank = 0; rank < job_.ranks(); ++rank)
      for (size_t i = 0; i < job_.at(rank).queues.size(); ++i) {
        const QueueSnapshot &queue = job_.queue(rank, i);
        const bool works =
            job_.at(rank).state == RankState::Joined && queue.current && !queue.isWaiting;
        if (works &&
            (!longest || queue.sinceNs < job_.queue(longest->first, longest->second).sinceNs))
          longest = {rank, i};
      }
    if (!longest)
      return std::nullopt;
    const auto [rank, index] = *longest;
    const QueueSnapshot &queue = job_.queue(rank, index);
    return Blame{rank,
                 fmt::format("rank {} has been in {}{}{}", rank,
                             job_.commandText(rank, *queue.current),
                             lasting(job_.now(), queue.sinceNs), job_.lastCompleted(rank, index)),
                 {rank}};
  }

  /// Without a Plan nobody knows who waits for whom; somebody who waits for nobody stands out.
  std::optional<Blame> ownCode() const {
    for (int64_t rank = 0; rank < job_.ranks(); ++rank) {
      const RankSnapshot &snapshot = job_.at(rank);
      const bool isFree = snapshot.activity == HostActivity::OwnCode ||
                          snapshot.activity == HostActivity::Preparing;
      if (snapshot.state == RankState::Joined && isFree && !job_.leadingQueue(rank))
        return Blame{rank, job_.rankText(rank), {rank}};
    }
    return std::nullopt;
  }

  /// What a waiter waits for: "rank 1 waits for rank 2 in ...".
  std::string waiterText(Waiter waiter) const {
    if (waiter.queue != Waiter::kHost)
      return job_.waitText(waiter.rank, static_cast<size_t>(waiter.queue));
    return fmt::format("rank {} {}", waiter.rank, phrase(job_.at(waiter.rank)));
  }

  /// What the host thread of the rank at the end does, how far the rank is, and who waits for it.
  std::string endText(const Verdict &verdict) const {
    const RankSnapshot &rank = job_.at(verdict.rank);
    return fmt::format("rank {} {}{}{}", verdict.rank, phrase(rank),
                       rank.state == RankState::Joined ? lasting(job_.now(), rank.activitySinceNs)
                                                       : std::string(),
                       rank.state == RankState::Absent
                           ? std::string()
                           : job_.lastCompleted(verdict.rank, std::nullopt)) +
           waitedForBy(verdict);
  }

  std::string waitedForBy(const Verdict &verdict) const {
    for (const Waiter &waiter : llvm::reverse(verdict.waiters))
      if (waiter.rank != verdict.rank)
        return "; " + waiterText(waiter);
    return "";
  }

  Blame blameOf(const Verdict &verdict) const {
    Blame blame{verdict.rank, "", {}};
    if (verdict.rank >= 0)
      blame.shown.push_back(verdict.rank);
    for (const Waiter &waiter : llvm::reverse(verdict.waiters))
      blame.shown.push_back(waiter.rank);
    switch (verdict.end) {
    case EndKind::Lost:
      blame.text = lostText(verdict);
      break;
    case EndKind::Cycle:
      blame.text = cycleText(verdict);
      break;
    case EndKind::HostSilent:
      blame.text = fmt::format("all ranks have come, but the job's host does not answer; {}",
                               waiterText(verdict.waiters.back()));
      break;
    case EndKind::Idle:
      blame.text = endText(verdict) + "; its queues do not move";
      break;
    case EndKind::Gone:
    case EndKind::OwnCode:
    case EndKind::Working:
    case EndKind::Unknown:
      blame.text = endText(verdict);
      break;
    }
    return blame;
  }

  std::string lostText(const Verdict &verdict) const {
    const Waiter &waiter = verdict.waiters.back();
    const auto queue = static_cast<size_t>(waiter.queue);
    if (waiter.rank == verdict.rank)
      return fmt::format("{}, but that stream has gone past it: the event was lost{}",
                         waiterText(waiter), job_.lastCompleted(waiter.rank, queue));
    return fmt::format("{}, but rank {} has gone past the signal: it was lost{}",
                       waiterText(waiter), verdict.rank, job_.lastCompleted(waiter.rank, queue));
  }

  std::string cycleText(const Verdict &verdict) const {
    constexpr size_t kMostInLine = 4;
    std::string text = "the ranks wait for each other: ";
    for (size_t i = 0; i < std::min(verdict.waiters.size(), kMostInLine); ++i)
      text += (i == 0 ? "" : "; ") + waiterText(verdict.waiters[i]);
    if (verdict.waiters.size() > kMostInLine)
      text += fmt::format("; and so on, {} waits in all", verdict.waiters.size());
    return text;
  }

  /// At most kMaxReportedRanks: those that matter most, in the order of ranks.
  std::vector<int64_t> listed(const Blame &blame) const {
    std::vector<int64_t> ranks;
    auto add = [&](int64_t rank) {
      if (ranks.size() < kMaxReportedRanks &&
          std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
        ranks.push_back(rank);
    };
    for (int64_t rank : blame.shown)
      add(rank);
    for (int64_t rank = 0; rank < job_.ranks(); ++rank)
      add(rank);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  const Job &job_;
  std::chrono::milliseconds timeout_;
};

} // namespace

std::string describeRank(const JobMemory &memory, const KnownPlans &plans, int64_t rank) {
  return Job(memory, plans).rankText(rank);
}

JobCause stallCause(const JobMemory &memory, const KnownPlans &plans,
                    std::chrono::milliseconds timeout) {
  const Job job(memory, plans);
  return Stall(job, timeout).cause();
}

JobCause stopCause(const JobMemory &memory, const KnownPlans &plans, int64_t rank,
                   std::chrono::milliseconds timeout) {
  const Job job(memory, plans);
  return Stall(job, timeout).causeIfStopped(rank);
}

} // namespace braid
