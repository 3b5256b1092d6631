//===- runtime/simulate/steps.cpp - the steps of all streams, with their costs ----------------===//

#include "runtime/simulate/steps.h"

#include "ir/failure.h"
#include "runtime/execute/peer_memory.h"
#include "runtime/plan/spell_out.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid::simulator {
namespace {

// -- Kernels. --

/// Returns true if the sum is fused into the kernel of `copies`: each copy must transfer one whole
/// part of the sum, and the size and stride of a part must be multiples of the size of a GPU load.
bool addsOnTheWay(const PlanSum &sum, llvm::ArrayRef<const Command *> copies) {
  constexpr int64_t kUnit = 16;
  const int64_t part = sum.part(0).bytes;
  return part % kUnit == 0 && sum.stride % kUnit == 0 &&
         llvm::all_of(copies, [&](const Command *copy) {
           return copy->dst.bytes == part && overlap(copy->dst, sum.parts);
         });
}

/// Returns the number of commands in the kernel that starts with the first of `commands`, which
/// must be a copy executed by a kernel.
uint32_t sizeOfKernel(const Plan &plan, llvm::ArrayRef<Command> commands, SignalBy signals) {
  constexpr size_t kMostCopies = 16;
  const bool canSignal = signals != SignalBy::Memory;
  llvm::SmallVector<const Command *, kMostCopies> copies;
  uint32_t count = 0;
  for (const Command &command : commands) {
    if (command.kind == CommandKind::Sum && canSignal &&
        addsOnTheWay(plan.sums[command.sum], copies))
      return count + 1;
    if (command.kind == CommandKind::Copy && copies.size() < kMostCopies)
      copies.push_back(&command);
    else if (command.kind != CommandKind::Signal || !canSignal)
      break;
    ++count;
  }
  return copies.size() > 1 ? count : 1;
}

// -- Costs. --

bool computes(const Command &command) {
  return command.kind == CommandKind::Sum || command.kind == CommandKind::Pointwise;
}

/// Returns the size of a copy that takes as long as `command`. A copy reads and writes each byte.
int64_t bytesLikeCopy(const Plan &plan, const Command &command) {
  if (command.kind == CommandKind::Matmul) // the result is stored at a peer
    return plan.matmuls[command.matmul].c.bytes;
  int64_t bytes = 0;
  forEachOperand(plan, command, [&](const Range &range, Access, OperandRole role) {
    bytes += role == OperandRole::Bias ? 0 : range.bytes;
  });
  return bytes / 2;
}

/// Returns the number of bytes that a rank sends or receives in a group, whichever is larger.
/// Treats a collective as a ring of its members.
double bytesOfMessage(const Plan &plan, const Command &command) {
  if (command.kind == CommandKind::Group) {
    double sent = 0, received = 0;
    for (const PlanMessage &message : plan.groups[command.group])
      (message.direction == Direction::Send ? sent : received) += double(message.range.bytes);
    return std::max(sent, received);
  }
  const PlanCollective &collective = plan.collectives[command.collective];
  const auto bytes = double(std::max(collective.src.bytes, collective.dst.bytes));
  if (collective.kind == CollectiveKind::Broadcast || collective.kind == CollectiveKind::Reduce)
    return bytes;
  const auto members = double(collective.members());
  const double rounds = collective.kind == CollectiveKind::AllReduce ? 2 : 1;
  return rounds * bytes * (members - 1) / members;
}

class JobBuilder {
public:
  JobBuilder(llvm::ArrayRef<Plan> plans, const CostModel &model, const OperationCosts &costs)
      : plans_(plans), model_(model), costs_(costs), wholes_(wholesOf(plans)) {}

  Result<Job> build() {
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      BRAID_TRY(checkRank(rank));
      BRAID_TRY(addRank(plans_[rank]));
    }
    BRAID_TRY(matchEndpoints());
    return std::move(job_);
  }

private:
  Status checkRank(size_t rank) const {
    const Plan &plan = plans_[rank];
    const auto period = static_cast<int64_t>(plans_.size());
    const bool hasWholeHosts = plan.hosts() == 1 || period % plan.ranksPerHost == 0;
    if (plan.rank == static_cast<int64_t>(rank) && plan.ranks == plans_.front().ranks &&
        plan.ranks % period == 0 && hasWholeHosts)
      return Status::ok();
    return badInput("expected the Plan for rank {} of {}, got the Plan for rank {} of {}", rank,
                    period, plan.rank, plan.ranks);
  }

  /// Copies after a fused sum belong to the sum's kernel, so they add no fixed time.
  Status addRank(const Plan &plan) {
    RankState &rank = job_.ranks.emplace_back();
    rank.plan = &plan;
    rank.firstLane = static_cast<uint32_t>(job_.lanes.size());
    rank.flagSetUs.assign(plan.flags, kNever);
    job_.lanes.resize(job_.lanes.size() + plan.streams.size(),
                      {.rank = static_cast<uint32_t>(plan.rank)});
    collectives_.clear();
    records_.assign(plan.events, kNone);
    gemmUs_.clear();
    for (const PlanMatmul &shape : plan.matmuls)
      gemmUs_.push_back(BRAID_TRY(model_.gemmUs(shape)));
    const std::vector<uint32_t> sizes = kernelSizes(plan, costs_.transferMode);
    bool hasAdded = false;
    for (size_t i = 0, end = 0; i < plan.commands.size(); i += sizes[i]) {
      if (i == end) {
        end = endOfBatch(plan, i);
        hasAdded = false;
      }
      const Command &command = plan.commands[i];
      Step step = makeStep(plan, static_cast<uint32_t>(i), sizes[i]);
      if (hasAdded && command.kind == CommandKind::Copy)
        step.fixedUs = 0;
      hasAdded |= sizes[i] > 1 && plan.commands[i + sizes[i] - 1].kind == CommandKind::Sum;
      // A Group or Collective costs no host time itself, unlike the commands it expands into.
      if (command.kind != CommandKind::Group && command.kind != CommandKind::Collective)
        rank.issuedUs += costs_.issueUs;
      step.issuedUs = rank.issuedUs;
      const uint32_t lane = rank.firstLane + command.stream;
      for (Flow &flow : step.work)
        flow.lane = lane;
      job_.lanes[lane].steps.push_back(std::move(step));
    }
    return Status::ok();
  }

  Step makeStep(const Plan &plan, uint32_t first, uint32_t count) {
    const Command &command = plan.commands[first];
    Step step{.command = first, .count = count};
    if (command.kind == CommandKind::Record)
      records_[command.event] = first;
    else if (command.kind == CommandKind::WaitEvent)
      step.record = records_[command.event];
    else if (command.kind == CommandKind::Await)
      step.flag = plan.endpoints[command.endpoint].flag;
    step.meeting = meetingOf(plan, first);
    for (uint32_t i = first; i < first + count; ++i) {
      step.fixedUs = std::max(step.fixedUs, fixedUs(plan, plan.commands[i], i == first));
      addWork(plan, plan.commands[i], step);
    }
    return step;
  }

  /// Returns the time before a step's work starts: the longest fixed time of its copies, or the
  /// fixed time of its first command.
  double fixedUs(const Plan &plan, const Command &command, bool isFirst) const {
    const bool isCopy = command.kind == CommandKind::Copy;
    if (isCopy && command.endpoint != kNone &&
        !plan.isSameHost(plan.endpoints[command.endpoint].peer))
      return model_.network.latencyUs;
    return isCopy || (computes(command) && isFirst) ? costOf(command).fixedUs : 0;
  }

  /// A sum that is fused into the kernel of its copies takes no additional time. If a GEMM stores
  /// its result at a peer, the result crosses the link while it is being computed.
  void addWork(const Plan &plan, const Command &command, Step &step) const {
    const auto onMachine = [&](double us) {
      step.work.push_back(
          {.left = us, .machine = static_cast<uint32_t>(plan.rank), .needsMachine = true});
    };
    switch (command.kind) {
    case CommandKind::Matmul:
      onMachine(gemmUs_[command.matmul]);
      if (command.endpoint != kNone)
        step.work.push_back(flowOf(plan, command));
      break;
    case CommandKind::Copy:
    case CommandKind::Pointwise:
      step.work.push_back(flowOf(plan, command));
      break;
    case CommandKind::Sum:
      if (step.work.empty())
        step.work.push_back(flowOf(plan, command));
      break;
    case CommandKind::Group:
    case CommandKind::Collective:
      if (plan.hosts() == 1)
        onMachine(costs_.message.us(bytesOfMessage(plan, command)));
      break;
    default:
      break;
    }
  }

  const CopyCost &costOf(const Command &command) const {
    if (command.endpoint == kNone)
      return costs_.local;
    return command.src.buffer == kPeerBuffer ? costs_.pull : costs_.push;
  }

  /// Messages between hosts are copied by their receivers. A kernel that copies within a rank needs
  /// the rank's whole machine.
  Flow flowOf(const Plan &plan, const Command &command) const {
    Flow flow{.left = static_cast<double>(bytesLikeCopy(plan, command)),
              .machine = static_cast<uint32_t>(plan.rank)};
    const double rate = costOf(command).bytesPerUs;
    if (command.endpoint == kNone) {
      flow.uses = {{Resource::Memory, plan.rank, rate}};
      flow.needsMachine = computes(command) || costs_.transferMode.copies == CopyBy::Kernel;
    } else {
      const int64_t other = plan.endpoints[command.endpoint].peer;
      const bool isPull = command.src.buffer == kPeerBuffer;
      const int64_t peer = other % static_cast<int64_t>(plans_.size()); // represents `other`
      const int64_t from = isPull ? peer : plan.rank, to = isPull ? plan.rank : peer;
      const NetworkCost &network = model_.network;
      if (plan.isSameHost(other))
        flow.uses = {{Resource::LinkOut, from, rate}, {Resource::LinkIn, to, rate}};
      else
        flow.uses = {{Resource::NetworkOut, from, network.rankBytesPerUs},
                     {Resource::NetworkIn, to, network.rankBytesPerUs},
                     {Resource::HostOut, plan.hostOf(from), network.bytesPerUs},
                     {Resource::HostIn, plan.hostOf(to), network.bytesPerUs}};
    }
    flow.limit = flow.uses.front().capacity;
    return flow;
  }

  /// Returns the meeting of the group or collective that starts with command `index`, or kNone.
  uint32_t meetingOf(const Plan &plan, uint32_t index) {
    const Command &command = plan.commands[index];
    if (index > 0 && plan.commands[index - 1].group == command.group &&
        plan.commands[index - 1].collective == command.collective)
      return kNone;
    std::pair<std::vector<int64_t>, uint32_t> key;
    if (command.group != kNone) {
      key = {{}, wholes_[static_cast<size_t>(plan.rank)][command.group].number};
    } else if (command.collective != kNone) {
      const std::vector<int64_t> &team = plan.collectives[command.collective].team;
      key = {team, collectives_[team]++};
    } else {
      return kNone;
    }
    const auto number = static_cast<uint32_t>(job_.meetings.size());
    const auto [found, isNew] = meetings_.try_emplace(key, number);
    if (isNew)
      job_.meetings.emplace_back();
    ++job_.meetings[found->second].missing;
    return found->second;
  }

  /// Finds the flag that each endpoint's signal sets, in the same way as the executor.
  Status matchEndpoints() {
    const auto period = static_cast<int64_t>(plans_.size());
    std::map<EndpointKey, PlacedFlag> flags;
    for (const Plan &plan : plans_)
      for (const Endpoint &endpoint : plan.endpoints)
        flags[keyOf(plan, endpoint)] = {static_cast<size_t>(plan.rank), endpoint.flag};
    for (RankState &rank : job_.ranks)
      for (const Endpoint &endpoint : rank.plan->endpoints) {
        const auto found = flags.find(partnerKeyOf(*rank.plan, endpoint, period));
        if (found == flags.end())
          return badInput("{} on rank {} has no matching transfer on rank {}",
                          describeOrigin(*rank.plan, endpoint.origin), rank.plan->rank,
                          endpoint.peer);
        rank.peerFlags.push_back(found->second);
      }
    return Status::ok();
  }

  llvm::ArrayRef<Plan> plans_;
  const CostModel &model_;
  const OperationCosts &costs_;
  const std::vector<std::vector<Whole>> wholes_; ///< indexed by rank and group
  Job job_;
  /// Meeting indices, keyed by Whole::number for groups, by team and sequence number otherwise.
  std::map<std::pair<std::vector<int64_t>, uint32_t>, uint32_t> meetings_;
  // State of the rank being added.
  std::map<std::vector<int64_t>, uint32_t> collectives_; ///< number of collectives so far, by team
  std::vector<double> gemmUs_;                           ///< indexed by GEMM in the Plan
  std::vector<uint32_t> records_;                        ///< last record of each event
};

} // namespace

std::vector<uint32_t> kernelSizes(const Plan &plan, TransferMode transferMode) {
  std::vector<uint32_t> sizes(plan.commands.size(), 1);
  if (transferMode.copies != CopyBy::Kernel)
    return sizes;
  for (size_t i = 0, end = 0; i < sizes.size(); i += sizes[i]) {
    if (i == end)
      end = endOfBatch(plan, i);
    if (plan.commands[i].kind == CommandKind::Copy)
      sizes[i] =
          sizeOfKernel(plan, llvm::ArrayRef(plan.commands).slice(i, end - i), transferMode.signals);
  }
  return sizes;
}

Outline timeOutlineOf(const Plan &plan, Shift shift) {
  Outline outline = outlineOf(plan, shift);
  outline.push_back(plan.hosts() > 1 ? plan.rank % plan.ranksPerHost : 0);
  for (const Endpoint &endpoint : plan.endpoints)
    outline.insert(outline.end(), {endpoint.channel, endpoint.sequence});
  llvm::append_range(outline, kernelSizes(plan, {CopyBy::Kernel}));
  for (size_t i = 0; i < plan.commands.size(); ++i)
    outline.push_back(continuesBatch(plan, i));
  return outline;
}

Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model,
                    const OperationCosts &costs) {
  return JobBuilder(plans, model, costs).build();
}

} // namespace braid::simulator
