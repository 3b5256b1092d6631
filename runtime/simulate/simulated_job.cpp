//===- runtime/simulate/simulated_job.cpp - the ranks and streams that a simulation follows ---===//

#include "runtime/simulate/simulated_job.h"

#include "ir/failure.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/alike_ranks.h"
#include "runtime/simulate/launches.h"

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
  state.needsLaunch = findLaunches(plan, costs.transferMode);
  state.goesOn = findGoingOn(plan, costs.transferMode);
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
