//===- runtime/simulate/simulated_job.cpp - the ranks and streams that a simulation follows ---===//

#include "runtime/simulate/simulated_job.h"

#include "ir/failure.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/alike_ranks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <tuple>
#include <utility>

namespace braid::simulator {
namespace {

/// All ranks, or those that stand for all.
Status checkRank(llvm::ArrayRef<Plan> plans, size_t rank) {
  const Plan &plan = plans[rank];
  const auto period = static_cast<int64_t>(plans.size());
  const bool hasWholeHosts = plan.hosts() == 1 || period % plan.ranksPerHost == 0;
  if (plan.rank == static_cast<int64_t>(rank) && plan.ranks == plans.front().ranks &&
      plan.ranks % period == 0 && hasWholeHosts)
    return Status::ok();
  return badInput("expected the Plan of rank {} of {}, got that of rank {} of {}", rank,
                  plans.size(), plan.rank, plan.ranks);
}

bool overlap(const Range &a, const Range &b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// Whether one of them writes what the other one reads or writes. Different endpoints are different
/// memory of peers.
bool doMeet(const Command &a, const Command &b) {
  auto doRangesMeet = [&](const Range &x, const Range &y) {
    return overlap(x, y) && (x.buffer != kPeerBuffer || a.endpoint == b.endpoint);
  };
  return doRangesMeet(a.dst, b.dst) || doRangesMeet(a.dst, b.src) || doRangesMeet(a.src, b.dst);
}

/// Whether all that copies bring are whole parts of the sum, in units that GPUs load at once, so
/// that their kernel adds them on its way.
bool addsAlong(const PlanSum &sum, llvm::ArrayRef<const Command *> copies) {
  constexpr int64_t kUnit = 16;
  const int64_t part = sum.part(0).bytes;
  return part % kUnit == 0 && sum.stride % kUnit == 0 &&
         llvm::all_of(copies, [&](const Command *copy) {
           return copy->dst.bytes == part && overlap(copy->dst, sum.parts) &&
                  (copy->dst.offset - sum.parts.offset) % sum.stride == 0;
         });
}

/// Whether a copy, if it is one of a peer's, is one within the host.
bool isOnHost(const Plan &plan, const Command &command) {
  return command.endpoint == kNone || plan.isSameHost(plan.endpoints[command.endpoint].peer);
}

/// See RankState::together.
uint32_t countTogether(const Plan &plan, llvm::ArrayRef<Command> commands,
                       TransferMode transferMode) {
  constexpr size_t kMostCopies = 16;
  if (commands.front().kind != CommandKind::Copy || transferMode.copies != CopyBy::Kernel)
    return 1;
  llvm::SmallVector<const Command *, kMostCopies> copies;
  uint32_t count = 0;
  for (const Command &command : commands) {
    const bool isCopy = command.kind == CommandKind::Copy;
    const bool isSignal =
        command.kind == CommandKind::Signal && transferMode.signals != SignalBy::Memory;
    if (command.stream != commands.front().stream)
      break;
    if (command.kind == CommandKind::Sum && transferMode.signals != SignalBy::Memory &&
        addsAlong(plan.sums[command.sum], copies))
      return count + 1;
    if (!isCopy && !isSignal)
      break;
    if (isCopy && (copies.size() == kMostCopies ||
                   llvm::any_of(copies, [&](const Command *c) { return doMeet(*c, command); })))
      break;
    if (isCopy)
      copies.push_back(&command);
    ++count;
  }
  return copies.size() > 1 ? count : 1;
}

} // namespace

/// Where nothing is together, all are 1.
std::vector<uint32_t> findTogether(const Plan &plan, TransferMode transferMode) {
  std::vector<uint32_t> together(plan.commands.size(), 1);
  for (size_t i = 0; i < plan.commands.size(); i += together[i])
    together[i] = countTogether(plan, llvm::ArrayRef(plan.commands).drop_front(i), transferMode);
  return together;
}

namespace {

/// Whether GPUs add so little in the kernel that signals or copies in front of it.
bool isSmall(const PlanSum &sum) {
  constexpr int64_t kMostBytes = 2 << 20; // backends/cuda/copy_and_signal.h: isForWorkers()
  return sum.count * sum.part(0).bytes <= kMostBytes;
}

/// What one kernel does of a batch, which follows.
struct BatchKernel {
  size_t count = 0;   ///< of the batch's first commands
  bool isBare = true; ///< signals and awaits alone
};

/// In this order: signals; awaits; copies with their signals; awaits, or a sum.
BatchKernel firstKernel(const Plan &plan, llvm::ArrayRef<Command> batch, CopyBy copyBy) {
  enum { ReadySignals, Awaits, Moves, Arrivals } part = ReadySignals;
  llvm::SmallVector<const Command *> copies;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Command &command = batch[i];
    const bool isBare = copies.empty();
    if (command.kind == CommandKind::Await) {
      part = part < Moves ? Awaits : Arrivals;
      continue;
    }
    const bool isSum = command.kind == CommandKind::Sum;
    if (isSum || command.kind == CommandKind::Copy) {
      const bool isAlong = isSum && !isBare && addsAlong(plan.sums[command.sum], copies);
      const bool joins =
          copyBy == CopyBy::Kernel && (isSum ? isAlong || isSmall(plan.sums[command.sum])
                                             : part != Arrivals && isOnHost(plan, command));
      if (!joins)
        return i == 0 ? BatchKernel{1, false} : BatchKernel{i, isBare};
      if (isSum && !isAlong)
        return {i + 1, false};
      copies.push_back(&command);
      part = isSum ? Arrivals : Moves;
      continue;
    }
    if (part == Arrivals)
      return {i, isBare};
    part = part == ReadySignals ? ReadySignals : Moves;
  }
  return {batch.size(), copies.empty()};
}

bool doesSignal(const Command &command) {
  return command.kind == CommandKind::Signal || command.kind == CommandKind::Await;
}

/// Of signals and awaits, those that copies by engines alone are around, on their stream: chains of
/// these were measured as they are.
std::vector<bool> findAmongCopies(const Plan &plan, CopyBy copyBy) {
  std::vector<std::vector<size_t>> lanes(plan.streams.size());
  for (size_t i = 0; i < plan.commands.size(); ++i)
    if (const CommandKind kind = plan.commands[i].kind;
        kind != CommandKind::Record && kind != CommandKind::WaitEvent)
      lanes[plan.commands[i].stream].push_back(i);
  std::vector<bool> found(plan.commands.size(), false);
  for (llvm::ArrayRef<size_t> lane : lanes) {
    const auto isCopy = [&](size_t place) {
      return copyBy != CopyBy::Kernel && place < lane.size() &&
             plan.commands[lane[place]].kind == CommandKind::Copy;
    };
    for (size_t begin = 0, end = 0; begin < lane.size(); begin = end + 1) {
      end = begin;
      while (end < lane.size() && doesSignal(plan.commands[lane[end]]))
        ++end;
      const bool isAmong = begin > 0 && isCopy(begin - 1) && isCopy(end);
      for (size_t command : lane.slice(begin, end - begin))
        found[command] = isAmong;
    }
  }
  return found;
}

/// Calls `fn(first, kernel)` for each kernel of a batch.
template <class Fn> void forKernels(const Plan &plan, CopyBy copyBy, Fn fn) {
  const llvm::ArrayRef<Command> commands = plan.commands;
  for (size_t first = 0, end = 0; first < commands.size(); first = end) {
    end = first + 1;
    while (end < commands.size() && continuesBatch(plan, end))
      ++end;
    for (size_t begin = first; begin < end;) {
      const BatchKernel kernel = firstKernel(plan, commands.slice(begin, end - begin), copyBy);
      fn(begin, kernel);
      begin += kernel.count;
    }
  }
}

} // namespace

std::vector<bool> findLaunches(const Plan &plan, TransferMode transferMode) {
  std::vector<bool> launches(plan.commands.size(), false);
  if (transferMode.signals == SignalBy::Memory)
    for (size_t i = 0; i < launches.size(); ++i)
      launches[i] = doesSignal(plan.commands[i]);
  else
    forKernels(plan, transferMode.copies, [&](size_t first, const BatchKernel &kernel) {
      launches[first] = kernel.isBare && doesSignal(plan.commands[first]);
    });
  const std::vector<bool> areAmongCopies = findAmongCopies(plan, transferMode.copies);
  for (size_t i = 0; i < launches.size(); ++i)
    launches[i] = launches[i] && !areAmongCopies[i];
  return launches;
}

namespace {

/// Deals commands out to their streams; each event's last record is what a wait waits for.
void addLanes(Job &job, RankState &state, const OperationCosts &costs) {
  const Plan &plan = *state.plan;
  const size_t first = job.lanes.size();
  state.firstLane = static_cast<uint32_t>(first);
  state.lanesLeft = plan.streams.size();
  job.lanes.resize(first + plan.streams.size());
  for (size_t lane = first; lane < job.lanes.size(); ++lane)
    job.lanes[lane].rank = static_cast<uint32_t>(plan.rank);
  std::vector<uint32_t> lastRecord(plan.events, kNone);
  state.together = findTogether(plan, costs.transferMode);
  state.isLaunched = findLaunches(plan, costs.transferMode);
  double issued = 0;
  uint32_t launched = 0; // the first command that no launch before it has issued
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    const Command &command = plan.commands[i];
    const bool isWait = command.kind == CommandKind::WaitEvent;
    if (i >= launched) {
      issued += costs.issueUs(command.kind);
      launched = i + state.together[i];
    }
    state.issuedUs.push_back(issued);
    state.record.push_back(isWait ? lastRecord[command.event] : kNone);
    if (command.kind == CommandKind::Record)
      lastRecord[command.event] = i;
    job.lanes[first + command.stream].commands.push_back(i);
  }
}

Result<RankState> makeRank(Job &job, const Plan &plan, const CostModel &model,
                           const OperationCosts &costs) {
  RankState state;
  state.plan = &plan;
  addLanes(job, state, costs);
  for (const PlanMatmul &shape : plan.matmuls)
    state.costs.push_back(BRAID_TRY(model.gemmCost(shape)));
  state.flagSetUs.assign(plan.flags, kNever);
  state.flagLane.assign(plan.flags, kNone);
  return state;
}

/// Finds the flag that each endpoint's signal sets, as the executor does.
Status matchEndpoints(std::vector<RankState> &ranks) {
  const auto period = static_cast<int64_t>(ranks.size());
  std::map<EndpointKey, uint32_t> flags;
  for (const RankState &state : ranks)
    for (const Endpoint &endpoint : state.plan->endpoints)
      flags[keyOf(*state.plan, endpoint)] = endpoint.flag;
  for (RankState &state : ranks)
    for (const Endpoint &endpoint : state.plan->endpoints) {
      auto found = flags.find(partnerKeyOf(*state.plan, endpoint, period));
      if (found == flags.end())
        return badInput("{} on rank {} meets nothing on rank {}",
                        describeOrigin(*state.plan, endpoint.origin), state.plan->rank,
                        endpoint.peer);
      state.peerFlag.push_back(found->second);
    }
  return Status::ok();
}

/// Gives each group and each collective of the ranks its meeting.
class MeetingFinder {
public:
  MeetingFinder(llvm::ArrayRef<Plan> plans, Job &job)
      : wholes_(wholesOf(plans)), period_(static_cast<int64_t>(plans.size())), job_(job) {}

  void find(RankState &state) {
    const Plan &plan = *state.plan;
    state.meeting.assign(plan.commands.size(), kNone);
    std::map<std::vector<int64_t>, uint32_t> issued;
    llvm::SmallVector<bool> isGroupSeen(plan.groups.size()),
        isCollectiveSeen(plan.collectives.size());
    for (uint32_t i = 0; i < plan.commands.size(); ++i) {
      const Command &command = plan.commands[i];
      if (command.group != kNone && !std::exchange(isGroupSeen[command.group], true))
        state.meeting[i] = ofGroup(plan, command.group);
      if (command.collective != kNone &&
          !std::exchange(isCollectiveSeen[command.collective], true)) {
        const std::vector<int64_t> &team = plan.collectives[command.collective].team;
        state.meeting[i] = ofTeam(team, issued[team]++);
      }
    }
  }

private:
  /// It misses each group of its whole.
  uint32_t ofGroup(const Plan &plan, uint32_t group) {
    const uint32_t whole = wholes_[static_cast<size_t>(plan.rank)][group].number;
    const uint32_t meeting = numberOf(ofWholes_, whole);
    ++job_.meetings[meeting].missing;
    return meeting;
  }

  /// It misses all of the team that are here, whether they will come or not.
  uint32_t ofTeam(const std::vector<int64_t> &team, uint32_t time) {
    const uint32_t meeting = numberOf(ofTeams_, std::pair(team, time));
    job_.meetings[meeting].missing =
        static_cast<size_t>(llvm::count_if(team, [&](int64_t rank) { return rank < period_; }));
    return meeting;
  }

  template <class Key> uint32_t numberOf(std::map<Key, uint32_t> &numbers, const Key &key) {
    const auto next = static_cast<uint32_t>(job_.meetings.size());
    const auto [found, isNew] = numbers.try_emplace(key, next);
    if (isNew)
      job_.meetings.emplace_back();
    return found->second;
  }

  const std::vector<std::vector<Whole>> wholes_; ///< by rank and group
  const int64_t period_;
  Job &job_;
  std::map<uint32_t, uint32_t> ofWholes_;
  std::map<std::pair<std::vector<int64_t>, uint32_t>, uint32_t> ofTeams_;
};

} // namespace

Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model,
                    const OperationCosts &costs) {
  Job job;
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    BRAID_TRY(checkRank(plans, rank));
    job.ranks.push_back(BRAID_TRY(makeRank(job, plans[rank], model, costs)));
  }
  BRAID_TRY(matchEndpoints(job.ranks));
  MeetingFinder meetings(plans, job);
  for (RankState &state : job.ranks)
    meetings.find(state);
  return job;
}

Job repeated(const Job &job, size_t runs) {
  Job all;
  for (size_t run = 0; run < runs; ++run) {
    const auto lanes = static_cast<uint32_t>(all.lanes.size());
    const auto ranks = static_cast<uint32_t>(all.ranks.size());
    const auto meetings = static_cast<uint32_t>(all.meetings.size());
    llvm::append_range(all.lanes, job.lanes);
    llvm::append_range(all.ranks, job.ranks);
    llvm::append_range(all.meetings, job.meetings);
    for (Lane &lane : llvm::MutableArrayRef(all.lanes).drop_front(lanes))
      lane.rank += ranks;
    for (RankState &state : llvm::MutableArrayRef(all.ranks).drop_front(ranks)) {
      state.firstLane += lanes;
      const double before = state.issuedUs.empty() ? 0 : state.issuedUs.back();
      for (double &us : state.issuedUs)
        us += static_cast<double>(run) * before;
      for (uint32_t &meeting : state.meeting)
        meeting += meeting == kNone ? 0 : meetings;
    }
  }
  return all;
}

} // namespace braid::simulator
