//===- runtime/simulate/simulator.cpp - how long a Plan would take ----------------------------===//

#include "runtime/simulate/simulator.h"

#include "ir/failure.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/flows.h"
#include "runtime/simulate/simulated_job.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

namespace braid {
namespace {

using simulator::Flow;
using simulator::kNever;
using simulator::Lane;
using simulator::RankState;

/// Moments closer than this, or than this part of the time gone, are one: ranks that do the same
/// then move in step, and rounding holds nothing up.
constexpr double kSameMomentUs = 1e-6, kSamePart = 1e-12;

size_t commandsOf(llvm::ArrayRef<RankState> ranks) {
  size_t count = 0;
  for (const RankState &rank : ranks)
    count += rank.plan->commands.size();
  return count;
}

class Simulator {
public:
  /// `messages` knows what groups and collectives cost; null: they take no time by themselves.
  Simulator(simulator::Job job, const CostModel &model, const OperationCosts &costs,
            const CostModel *messages, const ProgressFn &progress)
      : costs_(costs), network_(model.network), messages_(messages), ranks_(std::move(job.ranks)),
        lanes_(std::move(job.lanes)), meetings_(std::move(job.meetings)), flows_(ranks_.size()),
        done_(progress, "simulating", "commands", commandsOf(ranks_)) {
    for (const RankState &rank : ranks_)
      spans_.emplace_back(rank.plan->commands.size(), SimulatedSpan{kNever, kNever});
  }

  /// The moment at which the last command has ended.
  Result<double> run();
  std::vector<std::vector<SimulatedSpan>> takeSpans() { return std::move(spans_); }

private:
  using Phase = Lane::Phase;

  bool goesOn(uint32_t number);
  bool sleepUntil(uint32_t number, double us);
  bool meets(uint32_t number);
  bool starts(uint32_t number);
  void startFlows(uint32_t number);
  void start(uint32_t number, const Flow &flow);
  void end(uint32_t number);
  double fixedUs(const Lane &lane) const;
  const CopyCost &costOf(const Command &command) const;
  Flow flowOf(uint32_t number, const Command &command) const;
  double messageUs(const RankState &rank, const Command &command) const;
  void setFlag(const RankState &rank, const Command &signal);
  void wakeLanes(const RankState &rank);
  void moveToNextMoment(double us);
  Status deadlock() const;

  /// The rank here that stands for a rank of the mesh.
  uint32_t standsFor(int64_t rank) const {
    return static_cast<uint32_t>(size_t(rank) % ranks_.size());
  }
  /// The commands that the lane is at: one, or those that are together.
  llvm::ArrayRef<uint32_t> step(const Lane &lane) const {
    return llvm::ArrayRef(lane.commands)
        .slice(lane.next, ranks_[lane.rank].kernels.together[lane.command()]);
  }
  double tolerance() const { return std::max(kSameMomentUs, now_ * kSamePart); }

  const OperationCosts &costs_;
  const NetworkCost &network_;
  const CostModel *messages_;
  std::vector<std::vector<SimulatedSpan>> spans_;
  std::vector<RankState> ranks_;
  std::vector<Lane> lanes_;
  std::vector<simulator::Meeting> meetings_;
  simulator::Flows flows_;
  std::vector<uint32_t> ready_;              ///< lanes that may be able to go on
  using Timer = std::pair<double, uint32_t>; ///< moment, lane
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  double now_ = 0;
  ProgressStep done_; ///< commands
};

// -- What a lane does. --

/// One phase of the lane's next command; false if something holds it up.
bool Simulator::goesOn(uint32_t number) {
  Lane &lane = lanes_[number];
  if (lane.isDone() || lane.isAsleep || lane.flows > 0)
    return false;
  switch (lane.phase) {
  case Phase::Issue: {
    const double issued = ranks_[lane.rank].issuedUs[lane.command()];
    for (uint32_t command : step(lane))
      spans_[lane.rank][command].beginUs = std::max(now_, issued);
    lane.phase = Phase::Meeting;
    return sleepUntil(number, issued);
  }
  case Phase::Meeting:
    if (!meets(number))
      return false;
    lane.phase = Phase::Start;
    return sleepUntil(number, now_ + fixedUs(lane));
  case Phase::Start:
    if (!starts(number))
      return false;
    lane.phase = Phase::End;
    return true;
  case Phase::End:
    end(number);
    return true;
  }
  return false;
}

/// False if that is later than now.
bool Simulator::sleepUntil(uint32_t number, double us) {
  if (us <= now_ + tolerance())
    return true;
  lanes_[number].isAsleep = true;
  timers_.push({us, number});
  return false;
}

/// Whether all who meet in front of the lane's command have come. The last one wakes the others.
bool Simulator::meets(uint32_t number) {
  const Lane &lane = lanes_[number];
  const uint32_t place = ranks_[lane.rank].meeting[lane.command()];
  if (place == kNone)
    return true;
  simulator::Meeting &meeting = meetings_[place];
  if (!llvm::is_contained(meeting.lanes, number)) {
    meeting.lanes.push_back(number);
    if (--meeting.missing == 0)
      llvm::append_range(ready_, meeting.lanes);
  }
  return meeting.missing == 0;
}

/// Whether what the command waits for is there; then its work starts.
bool Simulator::starts(uint32_t number) {
  const Lane &lane = lanes_[number];
  const RankState &rank = ranks_[lane.rank];
  const Command &command = rank.plan->commands[lane.command()];
  if (command.kind == CommandKind::Await) {
    const double set = rank.flagSetUs[command.flag];
    return set != kNever && sleepUntil(number, set);
  }
  if (const uint32_t record = rank.record[lane.command()]; record != kNone)
    return spans_[lane.rank][record].endUs != kNever;
  startFlows(number);
  return true;
}

void Simulator::start(uint32_t number, const Flow &flow) {
  ++lanes_[number].flows;
  flows_.start(flow);
}

/// A sum that its copies' kernel adds takes no time besides. What a GEMM stores at a peer crosses
/// the link while it is computed.
void Simulator::startFlows(uint32_t number) {
  const RankState &rank = ranks_[lanes_[number].rank];
  for (uint32_t place : step(lanes_[number])) {
    const Command &command = rank.plan->commands[place];
    switch (command.kind) {
    case CommandKind::Matmul:
      start(number, simulator::gemmFlow(number, rank.gemms[command.matmul], lanes_[number].rank));
      if (command.endpoint != kNone)
        start(number, flowOf(number, command));
      break;
    case CommandKind::Sum:
      if (lanes_[number].flows > 0)
        break;
      [[fallthrough]];
    case CommandKind::Copy:
    case CommandKind::Pointwise:
      start(number, flowOf(number, command));
      break;
    case CommandKind::Group:
    case CommandKind::Collective:
      if (const double us = messageUs(rank, command); us > 0)
        start(number, simulator::kernelFlow(number, us, lanes_[number].rank));
      break;
    default:
      break;
    }
  }
}

bool computes(const Command &command) {
  return command.kind == CommandKind::Sum || command.kind == CommandKind::Pointwise;
}

const CopyCost &Simulator::costOf(const Command &command) const {
  if (command.endpoint == kNone)
    return computes(command) ? costs_.sumCost() : costs_.local;
  return command.src.buffer == kPeerBuffer ? costs_.pull : costs_.push;
}

/// Before the command's work starts.
double Simulator::fixedUs(const Lane &lane) const {
  const RankState &rank = ranks_[lane.rank];
  double most = 0;
  for (uint32_t place : step(lane)) {
    const Command &command = rank.plan->commands[place];
    double us = rank.kernels.launches[place] * costs_.launchUs;
    const bool isPart = computes(command) && place != lane.command(); // of its copies' kernel
    const bool isCopy = command.kind == CommandKind::Copy;
    if (isCopy && command.endpoint != kNone &&
        !rank.plan->isSameHost(rank.plan->endpoints[command.endpoint].peer))
      us += network_.latencyUs;
    else if (isCopy || (computes(command) && !isPart))
      us += costOf(command).fixedUs;
    most = std::max(most, us);
  }
  return most;
}

/// Bytes of a copy within memory, which reads and writes each of them, that takes as long; bytes
/// that a GEMM stores at a peer.
int64_t bytesLikeCopy(const Plan &plan, const Command &command) {
  switch (command.kind) {
  case CommandKind::Matmul:
    return plan.matmuls[command.matmul].c.bytes;
  case CommandKind::Pointwise: {
    const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
    int64_t bytes = pointwise.dst.bytes;
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      bytes += operand.range.bytes;
    return bytes / 2;
  }
  case CommandKind::Sum: {
    const PlanSum &sum = plan.sums[command.sum];
    return (sum.count * sum.part(0).bytes + sum.dst.bytes) / 2;
  }
  default:
    return command.dst.bytes;
  }
}

/// Messages between hosts are copied by their receivers.
Flow Simulator::flowOf(uint32_t number, const Command &command) const {
  const uint32_t rank = lanes_[number].rank;
  const Plan &plan = *ranks_[rank].plan;
  const int64_t bytes = bytesLikeCopy(plan, command);
  const CopyCost &cost = costOf(command);
  Flow flow;
  if (command.endpoint == kNone) {
    flow = simulator::localFlow(number, bytes, cost, rank);
  } else {
    const int64_t other = plan.endpoints[command.endpoint].peer;
    const uint32_t peer = standsFor(other);
    const auto hostOf = [&](uint32_t one) { return static_cast<uint32_t>(plan.hostOf(one)); };
    if (!plan.isSameHost(other))
      return simulator::networkFlow(number, bytes, network_, {peer, hostOf(peer)},
                                    {rank, hostOf(rank)});
    const bool isPull = command.src.buffer == kPeerBuffer;
    flow = isPull ? simulator::linkFlow(number, bytes, cost, peer, rank)
                  : simulator::linkFlow(number, bytes, cost, rank, peer);
  }
  const bool isKernel = computes(command) || (command.kind != CommandKind::Matmul &&
                                              costs_.transferMode.copies == CopyBy::Kernel);
  return isKernel ? simulator::byKernel(flow, rank) : flow;
}

double Simulator::messageUs(const RankState &rank, const Command &command) const {
  if (!messages_)
    return 0;
  return messages_
      ->messageUs(costs_.launchMode, kindOfMessage(*rank.plan, command),
                  bytesOfMessage(*rank.plan, command))
      .value_or(0);
}

/// The flag on the peer is set once the signal has reached it.
void Simulator::setFlag(const RankState &rank, const Command &signal) {
  RankState &peer = ranks_[standsFor(rank.plan->endpoints[signal.endpoint].peer)];
  peer.flagSetUs[rank.peerFlag[signal.endpoint]] = now_ + costs_.signalUs;
  wakeLanes(peer);
}

void Simulator::wakeLanes(const RankState &rank) {
  for (uint32_t i = 0; i < rank.plan->streams.size(); ++i)
    ready_.push_back(rank.firstLane + i);
}

/// The lane's step is over.
void Simulator::end(uint32_t number) {
  Lane &lane = lanes_[number];
  const RankState &rank = ranks_[lane.rank];
  const llvm::ArrayRef<uint32_t> places = step(lane);
  for (uint32_t place : places) {
    const Command &command = rank.plan->commands[place];
    spans_[lane.rank][place].endUs = now_;
    if (command.kind == CommandKind::Signal)
      setFlag(rank, command);
    else if (command.kind == CommandKind::Record)
      wakeLanes(rank);
    done_.advance();
  }
  lane.next += places.size();
  lane.phase = Phase::Issue;
}

// -- Time. --

void Simulator::moveToNextMoment(double us) {
  const double passed = us - now_;
  now_ = us;
  for (uint32_t lane : flows_.proceed(passed, tolerance()))
    if (--lanes_[lane].flows == 0)
      ready_.push_back(lane);
  while (!timers_.empty() && timers_.top().first <= now_ + tolerance()) {
    const uint32_t lane = timers_.top().second;
    timers_.pop();
    lanes_[lane].isAsleep = false;
    ready_.push_back(lane);
  }
}

Status Simulator::deadlock() const {
  std::string text = "the simulated run cannot end";
  for (const Lane &lane : lanes_) {
    const Plan &plan = *ranks_[lane.rank].plan;
    if (!lane.isDone())
      text += fmt::format("\n  rank {} waits in {}", plan.rank,
                          describeOrigin(plan, plan.commands[lane.command()].origin));
  }
  return Status(StatusCode::TimedOut, text);
}

Result<double> Simulator::run() {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
    ready_.push_back(lane);
  for (;;) {
    for (size_t i = 0; i < ready_.size(); ++i) // grows meanwhile
      while (goesOn(ready_[i])) {
      }
    ready_.clear();
    flows_.share();
    const double timer = timers_.empty() ? kNever : timers_.top().first;
    const double next = std::min(timer, now_ + flows_.untilNextEnd());
    if (next == kNever)
      break;
    moveToNextMoment(next);
  }
  if (!llvm::all_of(lanes_, [](const Lane &lane) { return lane.isDone(); }))
    return deadlock();
  return now_;
}

// -- Messages. --

/// `spelled` have messages spelled out: receivers copy. Ranks that stand for others receive what
/// the peers send that they stand for.
NetworkTraffic trafficOfCopies(llvm::ArrayRef<Plan> spelled) {
  const Plan &first = spelled.front();
  std::vector<int64_t> sent(spelled.size(), 0);
  for (const Plan &plan : spelled)
    for (const Command &command : plan.commands) {
      if (command.kind != CommandKind::Copy || command.endpoint == kNone)
        continue;
      const auto sender = static_cast<size_t>(plan.endpoints[command.endpoint].peer);
      if (!plan.isSameHost(static_cast<int64_t>(sender)))
        sent[sender % sent.size()] += command.dst.bytes;
    }
  NetworkTraffic traffic;
  traffic.sentByHost.assign(static_cast<size_t>(first.hosts()), 0);
  for (int64_t rank = 0; rank < first.ranks; ++rank) {
    traffic.sentByRank.push_back(sent[static_cast<size_t>(rank) % sent.size()]);
    traffic.sentByHost[static_cast<size_t>(first.hostOf(rank))] += traffic.sentByRank.back();
  }
  return traffic;
}

/// Whether the model knows what all groups and collectives of the Plans cost. It was measured on
/// one host.
bool knowsMessages(const CostModel &model, LaunchMode launchMode, llvm::ArrayRef<Plan> plans) {
  return llvm::all_of(plans, [&](const Plan &plan) {
    return plan.hosts() == 1 &&
           (plan.groups.empty() || model.messageUs(launchMode, std::nullopt, 1)) &&
           llvm::all_of(plan.collectives, [&](const PlanCollective &collective) {
             return model.messageUs(launchMode, collective.kind, 1).has_value();
           });
  });
}

bool doRanksWait(llvm::ArrayRef<Plan> plans) {
  return llvm::any_of(
      plans, [](const Plan &plan) { return !plan.endpoints.empty() || plan.mayHaveMessages(); });
}

/// Between two runs that follow one another. Streams that begin together take one launch more.
double gapBefore(llvm::ArrayRef<Plan> plans, const OperationCosts &costs) {
  return costs.gapUs + (plans.front().streams.size() > 1 ? costs.launchUs : 0);
}

/// The Plans have no messages, or `messages` knows what theirs cost.
Result<Simulation> simulateCommands(llvm::ArrayRef<Plan> plans, const CostModel &model,
                                    const OperationCosts &costs, const CostModel *messages,
                                    const SimulationOptions &options) {
  Simulation simulation;
  double deviceUs = 0, issueUs = 0;
  const auto simulateAs = [&](const OperationCosts &as) -> Status {
    simulator::Job job = BRAID_TRY(simulator::makeJob(plans, model, as));
    for (const RankState &rank : job.ranks)
      if (!rank.issuedUs.empty())
        issueUs = std::max(issueUs, rank.issuedUs.back());
    Simulator simulator(std::move(job), model, as, messages, options.progress);
    deviceUs = BRAID_TRY(simulator.run());
    simulation.spans = simulator.takeSpans();
    return Status::ok();
  };
  if (options.what != Simulated::Run) { // the host is ahead of the device
    OperationCosts issued = costs;
    issued.issueUs = 0;
    BRAID_TRY(simulateAs(issued));
    simulation.burstUs = deviceUs + gapBefore(plans, costs);
  }
  if (!simulation.burstUs || costs.issueUs > 0)
    BRAID_TRY(simulateAs(costs));
  simulation.us = deviceUs + costs.runUs + (doRanksWait(plans) ? costs.apartUs : 0);
  if (simulation.burstUs)
    simulation.burstUs = std::max(*simulation.burstUs, issueUs);
  return simulation;
}

} // namespace

NetworkTraffic trafficOf(llvm::ArrayRef<Plan> plans) {
  return trafficOfCopies(spellOutData(plans));
}

Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options) {
  const OperationCosts *costs = model.find(options.launchMode, options.transferMode);
  if (!costs)
    return unsupported("the cost model knows no operations issued as {} with {}",
                       name(options.launchMode).str(), str(options.transferMode));
  if (!llvm::any_of(plans, [](const Plan &plan) { return plan.mayHaveMessages(); }))
    return simulateCommands(plans, model, *costs, nullptr, options);
  const bool isKnown = knowsMessages(model, options.launchMode, plans);
  std::vector<Plan> spelled;
  if (!isKnown)
    spelled = spellOutData(plans);
  const llvm::ArrayRef<Plan> shown = isKnown ? plans : llvm::ArrayRef<Plan>(spelled);
  Simulation simulation =
      BRAID_TRY(simulateCommands(shown, model, *costs, isKnown ? &model : nullptr, options));
  simulation.traffic = trafficOfCopies(shown);
  simulation.spelled = std::move(spelled);
  return simulation;
}

} // namespace braid
