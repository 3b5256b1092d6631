//===- runtime/simulate/simulated_job.cpp - the ranks and streams that a simulation follows ---===//

#include "runtime/simulate/simulated_job.h"

#include "ir/failure.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/alike_ranks.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <tuple>

namespace braid::simulator {
namespace {

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

/// The host takes no time for a group or a collective, but for the commands that spell it out, and
/// launches commands that are together at once.
void issueCommands(RankState &state, double issueUs) {
  const std::vector<Command> &commands = state.plan->commands;
  double issued = 0;
  size_t launched = 0; ///< the first command that is not issued yet
  for (size_t i = 0; i < commands.size(); ++i) {
    const CommandKind kind = commands[i].kind;
    const bool isMessage = kind == CommandKind::Group || kind == CommandKind::Collective;
    if (i >= launched) {
      issued += isMessage ? 0 : issueUs;
      launched = i + state.kernels.together[i];
    }
    state.issuedUs.push_back(issued);
  }
}

void addLanes(Job &job, RankState &state) {
  const Plan &plan = *state.plan;
  const size_t first = job.lanes.size();
  state.firstLane = static_cast<uint32_t>(first);
  job.lanes.resize(first + plan.streams.size());
  for (size_t lane = first; lane < job.lanes.size(); ++lane)
    job.lanes[lane].rank = static_cast<uint32_t>(plan.rank);
  std::vector<uint32_t> lastRecord(plan.events, kNone);
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    const Command &command = plan.commands[i];
    job.lanes[first + command.stream].commands.push_back(i);
    state.record.push_back(command.kind == CommandKind::WaitEvent ? lastRecord[command.event]
                                                                  : kNone);
    if (command.kind == CommandKind::Record)
      lastRecord[command.event] = i;
  }
}

Result<RankState> makeRank(Job &job, const Plan &plan, const CostModel &model,
                           const OperationCosts &costs) {
  RankState state;
  state.plan = &plan;
  state.kernels = findKernels(plan, costs.transferMode);
  issueCommands(state, costs.issueUs);
  addLanes(job, state);
  for (const PlanMatmul &shape : plan.matmuls)
    state.gemms.push_back(BRAID_TRY(model.gemmCost(shape)));
  state.flagSetUs.assign(plan.flags, kNever);
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

/// Gives each group and each collective its meeting, in front of its first command.
class MeetingFinder {
public:
  MeetingFinder(llvm::ArrayRef<Plan> plans, Job &job)
      : wholes_(wholesOf(plans)), period_(static_cast<int64_t>(plans.size())), job_(job) {}

  void find(RankState &state) {
    const Plan &plan = *state.plan;
    state.meeting.assign(plan.commands.size(), kNone);
    std::vector<bool> isGroupSeen(plan.groups.size()), isCollectiveSeen(plan.collectives.size());
    std::map<std::vector<int64_t>, int64_t> issued; // collectives of each team
    for (size_t i = 0; i < plan.commands.size(); ++i) {
      const Command &command = plan.commands[i];
      if (command.group != kNone && !isGroupSeen[command.group]) {
        isGroupSeen[command.group] = true;
        state.meeting[i] = ofGroup(wholes_[size_t(plan.rank)][command.group].number);
      } else if (command.collective != kNone && !isCollectiveSeen[command.collective]) {
        isCollectiveSeen[command.collective] = true;
        const std::vector<int64_t> &team = plan.collectives[command.collective].team;
        state.meeting[i] = ofTeam(team, issued[team]++);
      }
    }
  }

private:
  /// A number for each whole of groups, and for each collective: its team, and how many of the team
  /// were before it.
  using Key = std::pair<std::vector<int64_t>, int64_t>;

  uint32_t ofGroup(uint32_t whole) {
    const uint32_t meeting = numberOf({{}, whole});
    ++job_.meetings[meeting].missing;
    return meeting;
  }

  /// It misses all of the team that are simulated, whether they will come or not.
  uint32_t ofTeam(const std::vector<int64_t> &team, int64_t time) {
    const uint32_t meeting = numberOf({team, time});
    job_.meetings[meeting].missing =
        static_cast<size_t>(llvm::count_if(team, [&](int64_t rank) { return rank < period_; }));
    return meeting;
  }

  uint32_t numberOf(const Key &key) {
    const auto [found, isNew] = numbers_.try_emplace(key, uint32_t(job_.meetings.size()));
    if (isNew)
      job_.meetings.emplace_back();
    return found->second;
  }

  const std::vector<std::vector<Whole>> wholes_; ///< by rank and group
  const int64_t period_;
  Job &job_;
  std::map<Key, uint32_t> numbers_;
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

} // namespace braid::simulator
