//===- runtime/simulate/simulator.cpp - how long a Plan would take ----------------------------===//

#include "runtime/simulate/simulator.h"

#include "ir/failure.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/alike_ranks.h"
#include "runtime/simulate/flows.h"
#include "runtime/simulate/power.h"
#include "runtime/simulate/simulated_job.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
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

class Simulator {
public:
  /// `job` has `ranks` in each run. `messages` knows what groups and collectives cost; null: what
  /// is in front of them is all.
  Simulator(simulator::Job job, size_t ranks, const OperationCosts &costs,
            const NetworkCost &network, const CostModel *messages, const ProgressFn &progress);

  Result<Simulation> run();
  /// When the last rank's run of that number, from 0 on, has ended. After run().
  double endOfRun(size_t run) const { return endsUs_[run]; }

private:
  /// What happens to a lane at a moment to come.
  enum class Then : uint8_t { Begin, Flow, End, Run };
  struct Timer {
    double us;
    uint64_t number; ///< in the order set, where moments are equal
    uint32_t lane;   ///< of Run, the rank whose run begins
    Then then;
    bool operator>(const Timer &other) const {
      return std::tie(us, number) > std::tie(other.us, other.number);
    }
  };

  void advance(uint32_t lane);
  bool meets(uint32_t lane);
  void begin(uint32_t lane, const Command &command);
  bool launches(uint32_t lane);
  /// What held its command up is over.
  void beginAgain(uint32_t lane) {
    lanes_[lane].isBusy = false;
    ready_.push_back(lane);
  }
  void beginCopies(uint32_t lane);
  std::pair<Flow, double> copyOf(uint32_t lane, const Command &command) const;
  void beginGemm(uint32_t lane, const Command &command);
  void beginMessage(uint32_t lane, const Command &command);
  void beginAwait(uint32_t lane, const Command &command);
  void beginWaitEvent(uint32_t lane);
  double messageUs(uint32_t lane, const Command &command) const;
  void endFlow(uint32_t lane);
  void end(uint32_t lane);
  void endCommand(uint32_t lane);
  void setFlag(uint32_t rank, const Command &signal);
  void endLane(const Lane &lane);
  void beginRun(uint32_t rank);
  void at(double us, uint32_t lane, Then then = Then::End) {
    timers_.push({us, ++timerCount_, lane, then});
  }
  double nextMoment() const;
  double tolerance() const { return std::max(kSameMomentUs, now_ * kSamePart); }
  void moveTo(double us);
  void fire(const Timer &timer);
  bool doRanksWait() const;
  Status deadlock() const;

  /// The rank here that stands for a rank of the mesh.
  uint32_t standsFor(int64_t rank) const {
    return static_cast<uint32_t>(static_cast<size_t>(rank) % perRun_);
  }
  /// The rank of a lane, whatever its run.
  uint32_t rankOf(const Lane &lane) const { return static_cast<uint32_t>(lane.rank % perRun_); }
  const Command &commandOf(const Lane &lane) const {
    return ranks_[lane.rank].plan->commands[lane.command()];
  }
  /// The commands that the lane is at: one, or those that are together.
  llvm::ArrayRef<uint32_t> step(const Lane &lane) const {
    return llvm::ArrayRef(lane.commands)
        .slice(lane.next, ranks_[lane.rank].together[lane.command()]);
  }
  SimulatedSpan &span(const Lane &lane) { return result_.spans[lane.rank][lane.command()]; }

  const OperationCosts &costs_;
  const NetworkCost &network_;
  const CostModel *messages_;
  Simulation result_;
  const size_t perRun_;          ///< ranks
  std::vector<RankState> ranks_; ///< of all runs
  std::vector<double> endsUs_;   ///< of each run
  std::vector<Lane> lanes_;
  std::vector<simulator::Meeting> meetings_;
  std::vector<std::vector<Flow>> pending_; ///< of each lane: copies whose fixed time passes
  simulator::Flows flows_;
  std::vector<uint32_t> ready_; ///< lanes that may be able to go on
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t timerCount_ = 0;
  double now_ = 0;
  ProgressStep done_; ///< commands
};

size_t commandsOf(llvm::ArrayRef<RankState> ranks) {
  size_t count = 0;
  for (const RankState &rank : ranks)
    count += rank.plan->commands.size();
  return count;
}

Simulator::Simulator(simulator::Job job, size_t ranks, const OperationCosts &costs,
                     const NetworkCost &network, const CostModel *messages,
                     const ProgressFn &progress)
    : costs_(costs), network_(network), messages_(messages), perRun_(ranks),
      ranks_(std::move(job.ranks)), endsUs_(ranks_.size() / ranks, 0), lanes_(std::move(job.lanes)),
      meetings_(std::move(job.meetings)), pending_(lanes_.size()), flows_(ranks),
      done_(progress, "simulating", "commands", commandsOf(ranks_)) {
  for (const RankState &rank : ranks_)
    result_.spans.emplace_back(rank.plan->commands.size(), SimulatedSpan{kNever, kNever});
  for (uint32_t rank = 0; rank < perRun_; ++rank)
    beginRun(rank);
}

/// Its lanes may go on. Those without commands are done.
void Simulator::beginRun(uint32_t rank) {
  const RankState &state = ranks_[rank];
  for (uint32_t i = 0; i < state.plan->streams.size(); ++i) {
    const uint32_t lane = state.firstLane + i;
    if (lanes_[lane].isDone())
      endLane(lanes_[lane]);
    else
      ready_.push_back(lane);
  }
}

/// The rank's next run follows on its last lane.
void Simulator::endLane(const Lane &lane) {
  RankState &state = ranks_[lane.rank];
  if (--state.lanesLeft > 0)
    return;
  double &end = endsUs_[lane.rank / perRun_];
  end = std::max(end, now_);
  const size_t next = lane.rank + perRun_;
  if (next >= ranks_.size())
    return;
  at(now_ + costs_.gapBefore(*state.plan), static_cast<uint32_t>(next), Then::Run);
}

// -- What a lane does. --

/// Begins the next command if nothing holds it up.
void Simulator::advance(uint32_t number) {
  Lane &lane = lanes_[number];
  if (lane.isBusy || lane.isDone())
    return;
  const double issued = ranks_[lane.rank].issuedUs[lane.command()];
  if (issued > now_ + tolerance()) {
    lane.isBusy = true;
    span(lane).beginUs = issued;
    return at(issued, number, Then::Begin);
  }
  if (span(lane).beginUs == kNever)
    span(lane).beginUs = now_;
  if (meets(number))
    begin(number, commandOf(lane));
}

/// Whether all who meet in front of the lane's command have come. The last one wakes the others.
bool Simulator::meets(uint32_t number) {
  Lane &lane = lanes_[number];
  uint32_t &place = ranks_[lane.rank].meeting[lane.command()];
  if (place == kNone)
    return true;
  simulator::Meeting &meeting = meetings_[place];
  if (!std::exchange(lane.hasCome, true)) {
    meeting.lanes.push_back(number);
    if (--meeting.missing == 0)
      ready_.insert(ready_.end(), meeting.lanes.begin(), meeting.lanes.end());
  }
  if (meeting.missing > 0)
    return false;
  lane.hasCome = false;
  place = kNone;
  return true;
}

/// Whether the lane's command, a signal or an await, has to be launched first.
bool Simulator::launches(uint32_t number) {
  Lane &lane = lanes_[number];
  const bool needsLaunch = ranks_[lane.rank].needsLaunch[lane.command()] && costs_.launchUs > 0;
  if (!needsLaunch || std::exchange(lane.isLaunched, true))
    return false;
  if (costs_.transferMode.signals == SignalBy::Memory) {
    at(now_ + costs_.launchUs, number, Then::Begin);
    return true;
  }
  lane.flows = 1;
  flows_.start(simulator::launchFlow(number, costs_.launchUs, rankOf(lane)));
  return true;
}

void Simulator::begin(uint32_t number, const Command &command) {
  lanes_[number].isBusy = true;
  if (launches(number))
    return;
  switch (command.kind) {
  case CommandKind::Copy:
  case CommandKind::Sum:
  case CommandKind::Pointwise:
    return beginCopies(number);
  case CommandKind::Matmul:
    return beginGemm(number, command);
  case CommandKind::Signal:
    return at(now_ + costs_.signalUs, number);
  case CommandKind::Await:
    return beginAwait(number, command);
  case CommandKind::Group:
  case CommandKind::Collective:
    return beginMessage(number, command);
  case CommandKind::Record:
    return end(number);
  case CommandKind::WaitEvent:
    return beginWaitEvent(number);
  }
}

/// What is spelled out takes no time of its own.
void Simulator::beginMessage(uint32_t number, const Command &command) {
  const double us = messageUs(number, command);
  if (us <= 0)
    return at(now_, number);
  lanes_[number].flows = 1;
  flows_.start(simulator::messageFlow(number, us, rankOf(lanes_[number])));
}

double Simulator::messageUs(uint32_t number, const Command &command) const {
  if (!messages_)
    return 0;
  const Plan &plan = *ranks_[lanes_[number].rank].plan;
  return messages_
      ->messageUs(costs_.launchMode, kindOfMessage(plan, command), bytesOfMessage(plan, command))
      .value_or(0);
}

/// Bytes of a copy within memory that takes as long, which reads and writes each of them; of a
/// GEMM, those that it stores at a peer.
int64_t bytesLikeCopy(const Plan &plan, const Command &command) {
  if (command.kind == CommandKind::Matmul)
    return plan.matmuls[command.matmul].c.bytes;
  if (command.kind == CommandKind::Pointwise) {
    const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
    int64_t bytes = pointwise.dst.bytes;
    for (const PlanPointwise::Operand &operand : pointwise.operands())
      bytes += operand.range.bytes;
    return bytes / 2;
  }
  if (command.kind != CommandKind::Sum)
    return command.dst.bytes;
  const PlanSum &sum = plan.sums[command.sum];
  return (sum.count * sum.part(0).bytes + sum.dst.bytes) / 2;
}

simulator::NetworkEnd networkEnd(const Plan &plan, uint32_t rank) {
  return {rank, static_cast<uint32_t>(plan.hostOf(rank))};
}

/// The flow of a copy, and the time that passes before it.
std::pair<Flow, double> Simulator::copyOf(uint32_t number, const Command &command) const {
  const Plan &plan = *ranks_[lanes_[number].rank].plan;
  const uint32_t rank = rankOf(lanes_[number]);
  const int64_t bytes = bytesLikeCopy(plan, command);
  const bool computes = command.kind == CommandKind::Sum || command.kind == CommandKind::Pointwise;
  const bool isKernel = command.kind != CommandKind::Matmul &&
                        (computes || costs_.transferMode.copies == CopyBy::Kernel);
  const CopyCost *cost = computes ? &costs_.sumCost() : &costs_.local;
  uint32_t from = rank, to = rank;
  if (command.endpoint != kNone) {
    const int64_t other = plan.endpoints[command.endpoint].peer;
    if (!plan.isSameHost(other)) // a message, whose receiver copies
      return {simulator::networkFlow(number, bytes, network_, networkEnd(plan, standsFor(other)),
                                     networkEnd(plan, rank)),
              network_.latencyUs};
    const uint32_t peer = standsFor(other);
    const bool isPull = command.src.buffer == kPeerBuffer;
    cost = isPull ? &costs_.pull : &costs_.push;
    (isPull ? from : to) = peer;
  }
  const bool crosses = command.endpoint != kNone;
  Flow flow = simulator::copyFlow(number, bytes, *cost, crosses, from, to);
  flow.isKernel = isKernel;
  flow.machine = rank;
  return {flow, cost->fixedUs};
}

/// Usually one.
void Simulator::beginCopies(uint32_t number) {
  double fixedUs = 0;
  for (uint32_t command : step(lanes_[number])) {
    const RankState &rank = ranks_[lanes_[number].rank];
    result_.spans[lanes_[number].rank][command].beginUs = now_;
    const CommandKind kind = rank.plan->commands[command].kind;
    const bool isPart = kind == CommandKind::Sum && !pending_[number].empty(); // of the copies
    if (kind == CommandKind::Signal || isPart)
      continue;
    auto [flow, before] = copyOf(number, rank.plan->commands[command]);
    if (rank.goesOn[command])
      before = std::max(0.0, before - costs_.launchUs);
    pending_[number].push_back(flow);
    fixedUs = std::max(fixedUs, before);
  }
  at(now_ + fixedUs, number, Then::Flow);
}

/// What is stored at a peer crosses the link while it is computed.
void Simulator::beginGemm(uint32_t number, const Command &command) {
  const RankState &state = ranks_[lanes_[number].rank];
  const bool isEmpty = state.plan->matmuls[command.matmul].m == 0;
  lanes_[number].flows = 1;
  flows_.start(
      simulator::gemmFlow(number, state.costs[command.matmul], isEmpty, rankOf(lanes_[number])));
  if (command.endpoint == kNone)
    return;
  ++lanes_[number].flows;
  flows_.start(copyOf(number, command).first);
}

void Simulator::beginAwait(uint32_t number, const Command &command) {
  RankState &rank = ranks_[lanes_[number].rank];
  const double set = rank.flagSetUs[command.flag];
  if (set != kNever)
    return at(std::max(now_, set) + costs_.awaitUs, number);
  rank.flagLane[command.flag] = number;
  lanes_[number].isBusy = false;
}

void Simulator::beginWaitEvent(uint32_t number) {
  Lane &lane = lanes_[number];
  RankState &rank = ranks_[lane.rank];
  const uint32_t record = rank.record[lane.command()];
  if (record == kNone)
    return end(number);
  const double recorded = result_.spans[lane.rank][record].endUs;
  if (recorded != kNever)
    return at(std::max(now_, recorded + costs_.eventUs), number);
  rank.waitLanes.push_back(number);
  lane.isBusy = false;
}

/// The flag on the peer is set once the signal has reached it.
void Simulator::setFlag(uint32_t rank, const Command &signal) {
  const RankState &state = ranks_[rank];
  const size_t ofRun = rank - rank % perRun_;
  RankState &peer = ranks_[ofRun + standsFor(state.plan->endpoints[signal.endpoint].peer)];
  const uint32_t flag = state.peerFlag[signal.endpoint];
  peer.flagSetUs[flag] = now_ + costs_.flightUs;
  if (peer.flagLane[flag] != kNone)
    ready_.push_back(peer.flagLane[flag]);
}

/// When the last of a step's copies is done, its signals leave together.
void Simulator::endFlow(uint32_t number) {
  Lane &lane = lanes_[number];
  if (--lane.flows > 0)
    return;
  if (lane.isLaunched)
    return beginAgain(number);
  const RankState &rank = ranks_[lane.rank];
  bool hasSignal = false;
  for (uint32_t command : step(lane)) {
    const bool isSignal = rank.plan->commands[command].kind == CommandKind::Signal;
    hasSignal = hasSignal || isSignal;
    if (!isSignal)
      result_.spans[lane.rank][command].endUs = now_;
  }
  if (!hasSignal)
    return end(number);
  at(now_ + costs_.signalUs, number);
}

/// The lane's step is over.
void Simulator::end(uint32_t number) {
  for (size_t left = step(lanes_[number]).size(); left > 0; --left)
    endCommand(number);
  lanes_[number].isBusy = false;
  if (lanes_[number].isDone())
    return endLane(lanes_[number]);
  ready_.push_back(number);
}

void Simulator::endCommand(uint32_t number) {
  Lane &lane = lanes_[number];
  RankState &rank = ranks_[lane.rank];
  const Command &command = commandOf(lane);
  if (span(lane).endUs == kNever)
    span(lane).endUs = now_;
  if (command.kind == CommandKind::Signal) {
    setFlag(lane.rank, command);
  } else if (command.kind == CommandKind::Record) {
    ready_.insert(ready_.end(), rank.waitLanes.begin(), rank.waitLanes.end());
    rank.waitLanes.clear();
  }
  ++lane.next;
  lane.isLaunched = false;
  done_.advance();
}

// -- Time. --

double Simulator::nextMoment() const {
  const double timer = timers_.empty() ? kNever : timers_.top().us;
  return std::min(timer, now_ + flows_.untilNextEnd());
}

void Simulator::moveTo(double us) {
  const double passed = us - now_;
  now_ = us;
  for (uint32_t lane : flows_.proceed(passed, tolerance()))
    endFlow(lane);
  while (!timers_.empty() && timers_.top().us <= now_ + tolerance()) {
    const Timer timer = timers_.top();
    timers_.pop();
    fire(timer);
  }
}

void Simulator::fire(const Timer &timer) {
  switch (timer.then) {
  case Then::Begin: // it was issued, or launched, just now
    return beginAgain(timer.lane);
  case Then::Flow:
    lanes_[timer.lane].flows = static_cast<uint32_t>(pending_[timer.lane].size());
    for (const Flow &flow : pending_[timer.lane])
      flows_.start(flow);
    return pending_[timer.lane].clear();
  case Then::End:
    return end(timer.lane);
  case Then::Run:
    return beginRun(timer.lane);
  }
}

/// For one another: what begins last decides.
bool Simulator::doRanksWait() const {
  return llvm::any_of(ranks_, [](const RankState &rank) {
    return !rank.plan->endpoints.empty() || rank.plan->mayHaveMessages();
  });
}

Status Simulator::deadlock() const {
  std::string text = "the simulated run cannot end";
  for (const Lane &lane : lanes_)
    if (!lane.isDone())
      text += fmt::format("\n  rank {} waits in {}", ranks_[lane.rank].plan->rank,
                          describeOrigin(*ranks_[lane.rank].plan, commandOf(lane).origin));
  return Status(StatusCode::TimedOut, text);
}

Result<Simulation> Simulator::run() {
  for (;;) {
    for (size_t i = 0; i < ready_.size(); ++i) // grows meanwhile
      advance(ready_[i]);
    ready_.clear();
    flows_.share();
    const double next = nextMoment();
    if (next == kNever)
      break;
    moveTo(next);
  }
  for (const Lane &lane : lanes_)
    if (!lane.isDone())
      return deadlock();
  result_.us = endsUs_.front() + costs_.runUs + (doRanksWait() ? costs_.apartUs : 0);
  return std::move(result_);
}

} // namespace

/// Of Plans with messages spelled out: receivers copy. Ranks that stand for others receive what
/// those that they stand for send.
static NetworkTraffic trafficOfCopies(llvm::ArrayRef<Plan> spelled) {
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

NetworkTraffic trafficOf(llvm::ArrayRef<Plan> plans) {
  return trafficOfCopies(spellOutData(plans));
}

/// All groups and collectives of the Plans.
static bool knowsMessages(const CostModel &model, LaunchMode launchMode,
                          llvm::ArrayRef<Plan> plans) {
  return llvm::all_of(plans, [&](const Plan &plan) {
    return (plan.groups.empty() || model.messageUs(launchMode, std::nullopt, 1)) &&
           llvm::all_of(plan.collectives, [&](const PlanCollective &collective) {
             return model.messageUs(launchMode, collective.kind, 1).has_value();
           });
  });
}

/// What simulations of some Plans have in common.
struct Common {
  const CostModel &model;
  const OperationCosts &costs;
  const SimulationOptions &options;
  bool knowsMessages; ///< nothing is spelled out
};

/// All ranks do the same at the same moments, and so do all runs, if no host has to keep up.
static bool isLockstep(llvm::ArrayRef<Plan> plans, LaunchMode launchMode) {
  auto areMoved = [&](Shift shift) {
    return llvm::all_of(plans.drop_front(),
                        [&](const Plan &plan) { return isMoved(plan, plans.front(), shift); });
  };
  return launchMode == LaunchMode::Graph && (areMoved(Shift::Add) || areMoved(Shift::Xor));
}

/// A simulation, and from which moment to which a run was followed by the next one.
struct Timed {
  Simulation simulation;
  double periodUs = 0;
};

/// At the clock that the power of such runs allows. The time depends on the clock, and the clock on
/// the time: after half of the first step the rest is on a line.
template <class Run>
static Result<Timed> atItsClock(const simulator::Job &job, const Common &common, Run run) {
  constexpr int kMost = 3;
  constexpr double kSame = 2e-3;
  Timed timed = BRAID_TRY(run(job));
  double clock = 1, step = 0, missingBefore = 0;
  for (int i = 0; i < kMost && common.model.power.isKnown(); ++i) {
    const double missing =
        simulator::clockOf(job, common.model, common.costs, timed.periodUs) - clock;
    if (std::abs(missing) < kSame)
      break;
    const double closed = missingBefore - missing; // by the step before
    step = step * closed > 0 ? step * missing / closed : missing / 2;
    missingBefore = missing;
    clock = std::clamp(clock + step, simulator::kLeastClock, common.model.power.boost);
    timed = BRAID_TRY(run(simulator::atClock(job, common.model, clock)));
  }
  return timed;
}

/// Of the Plans of some ranks.
class RunSimulator {
public:
  RunSimulator(llvm::ArrayRef<Plan> plans, const Common &common) : plans_(plans), common_(common) {}

  Result<Simulation> simulate() {
    const auto &[model, costs, options, knowsMessages] = common_;
    const simulator::Job job = BRAID_TRY(simulator::makeJob(plans_, model, costs));
    Timed alone;
    if (options.what != Simulated::Burst)
      alone = BRAID_TRY(
          atItsClock(job, common_, [&](simulator::Job one) { return runAlone(std::move(one)); }));
    if (options.what == Simulated::Run)
      return std::move(alone.simulation);
    const bool isOneEnough = isLockstep(plans_, options.launchMode);
    const Timed burst = BRAID_TRY(atItsClock(job, common_, [&](simulator::Job one) {
      return isOneEnough ? runAmongAlike(std::move(one)) : runBurst(one);
    }));
    alone.simulation.burstUs = burst.periodUs;
    return std::move(alone.simulation);
  }

private:
  Simulator follow(simulator::Job job) const {
    return Simulator(std::move(job), plans_.size(), common_.costs, common_.model.network,
                     common_.knowsMessages ? &common_.model : nullptr, common_.options.progress);
  }

  Result<Timed> runAlone(simulator::Job job) const {
    Simulation simulation = BRAID_TRY(follow(std::move(job)).run());
    const double periodUs = simulation.us + common_.model.power.restUs;
    return Timed{std::move(simulation), periodUs};
  }

  Result<Timed> runAmongAlike(simulator::Job job) const {
    Simulator simulator = follow(std::move(job));
    BRAID_TRY(simulator.run());
    return Timed{{}, simulator.endOfRun(0) + common_.costs.gapBefore(plans_.front())};
  }

  /// Once the first runs are over, all take about as long.
  Result<Timed> runBurst(const simulator::Job &job) const {
    constexpr size_t kRuns = 3;
    Simulator simulator = follow(simulator::repeated(job, kRuns));
    BRAID_TRY(simulator.run());
    return Timed{{}, (simulator.endOfRun(kRuns - 1) - simulator.endOfRun(0)) / double(kRuns - 1)};
  }

  const llvm::ArrayRef<Plan> plans_;
  const Common &common_;
};

static Result<Simulation> simulateRun(llvm::ArrayRef<Plan> plans, const Common &common) {
  return RunSimulator(plans, common).simulate();
}

Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options) {
  const OperationCosts *costs = model.find(options.launchMode, options.transferMode);
  if (!costs)
    return unsupported("the cost model knows no operations issued as {} with {}",
                       name(options.launchMode).str(), str(options.transferMode));
  if (!llvm::any_of(plans, [](const Plan &plan) { return plan.mayHaveMessages(); }))
    return simulateRun(plans, {model, *costs, options, false});
  // What was measured of messages is of one host.
  const bool isOnOneHost = llvm::all_of(plans, [](const Plan &plan) { return plan.hosts() == 1; });
  const bool isKnown = isOnOneHost && knowsMessages(model, options.launchMode, plans);
  std::vector<Plan> spelled;
  if (!isKnown)
    spelled = spellOutData(plans);
  const llvm::ArrayRef<Plan> shown = isKnown ? plans : llvm::ArrayRef<Plan>(spelled);
  Simulation simulation = BRAID_TRY(simulateRun(shown, {model, *costs, options, isKnown}));
  simulation.traffic = trafficOfCopies(shown);
  simulation.spelled = std::move(spelled);
  return simulation;
}

} // namespace braid
