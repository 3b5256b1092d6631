//===- runtime/simulator.cpp - how long a Plan would take -------------------------------------===//

#include "runtime/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

namespace braid {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Moments closer than this, or than this part of the time gone, are one: ranks that do the same
/// then move in step, and rounding holds nothing up.
constexpr double kSameMomentUs = 1e-6, kSamePart = 1e-12;

/// A stream of a rank.
struct Lane {
  uint32_t rank = 0;
  std::vector<uint32_t> commands; ///< in order
  size_t next = 0;
  bool isBusy = false; ///< its command has begun, and will end by itself
  bool isDone() const { return next == commands.size(); }
  uint32_t command() const { return commands[next]; }
};

/// What one rank's commands refer to.
struct RankState {
  const Plan *plan = nullptr;
  size_t firstLane = 0;
  std::vector<double> issuedUs;    ///< of each command
  std::vector<uint32_t> record;    ///< of each wait_event: the record that it waits for, or kNone
  std::vector<ProductCost> costs;  ///< of each product of the Plan
  std::vector<double> wordSetUs;   ///< kNever: not signalled yet
  std::vector<uint32_t> wordLane;  ///< the lane that awaits it, or kNone
  std::vector<uint32_t> peerWord;  ///< of each endpoint: the word that its signal sets
  std::vector<uint32_t> waitLanes; ///< lanes that wait for a record
};

/// Something that proceeds at a rate which depends on what else is under way.
struct Flow {
  uint32_t lane = 0;
  bool isProduct = false;
  double left = 0;           ///< bytes, or microseconds of the whole machine
  double rate = 0;           ///< of that in a microsecond
  double limit = 0;          ///< the rate that it has alone
  double shared = 0;         ///< a link's, of a copy
  uint32_t from = 0, to = 0; ///< ranks, of a copy
};

class Simulator {
public:
  Simulator(llvm::ArrayRef<Plan> plans, const CostModel &model, const OperationCosts &costs)
      : plans_(plans), model_(model), costs_(costs) {}

  Result<Simulation> run();

private:
  Status setUp();
  Status setUpRank(RankState &state, const Plan &plan);
  Status matchEndpoints();
  void advance(uint32_t lane);
  void begin(uint32_t lane, const Command &command);
  void beginCopy(uint32_t lane, const Command &command);
  void beginProduct(uint32_t lane, const Command &command);
  void startFlow(uint32_t lane);
  void end(uint32_t lane);
  void at(double us, uint32_t lane) { timers_.push({us, ++timerCount_, lane}); }
  void share();
  void shareLinks();
  double nextMoment() const;
  double tolerance() const { return std::max(kSameMomentUs, now_ * kSamePart); }
  void moveTo(double us);
  Status deadlock() const;

  const Command &commandOf(const Lane &lane) const {
    return ranks_[lane.rank].plan->commands[lane.command()];
  }
  SimulatedSpan &span(const Lane &lane) { return result_.spans[lane.rank][lane.command()]; }

  struct Timer {
    double us;
    uint64_t number; ///< in the order set, where moments are equal
    uint32_t lane;
    bool operator>(const Timer &other) const {
      return std::tie(us, number) > std::tie(other.us, other.number);
    }
  };

  const llvm::ArrayRef<Plan> plans_;
  const CostModel &model_;
  const OperationCosts &costs_;
  Simulation result_;
  std::vector<RankState> ranks_;
  std::vector<Lane> lanes_;
  std::vector<Flow> pending_;   ///< of each lane: what flows when its timer ends; rate < 0: nothing
  std::vector<Flow> flows_;     ///< in the order begun
  std::vector<uint32_t> ready_; ///< lanes that may be able to go on
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t timerCount_ = 0;
  double now_ = 0;
  bool haveFlowsChanged_ = false;
};

// -- Before the first moment. --

Status Simulator::setUpRank(RankState &state, const Plan &plan) {
  state.plan = &plan;
  state.firstLane = lanes_.size();
  lanes_.resize(lanes_.size() + plan.streams.size());
  for (size_t lane = state.firstLane; lane < lanes_.size(); ++lane)
    lanes_[lane].rank = static_cast<uint32_t>(&state - ranks_.data());
  std::vector<uint32_t> lastRecord(plan.events, kNone);
  double issued = 0;
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    const Command &command = plan.commands[i];
    issued += costs_.issueUs(command.kind);
    state.issuedUs.push_back(issued);
    state.record.push_back(command.kind == CommandKind::WaitEvent ? lastRecord[command.event]
                                                                  : kNone);
    if (command.kind == CommandKind::Record)
      lastRecord[command.event] = i;
    lanes_[state.firstLane + command.stream].commands.push_back(i);
  }
  for (const PlanMatmul &shape : plan.matmuls) {
    Result<ProductCost> cost = model_.productCost(shape);
    if (!cost)
      return cost.status();
    state.costs.push_back(*cost);
  }
  state.wordSetUs.assign(plan.words, kNever);
  state.wordLane.assign(plan.words, kNone);
  result_.spans.emplace_back(plan.commands.size(), SimulatedSpan{kNever, kNever});
  return Status::ok();
}

/// Finds the word that each endpoint's signal sets, as the executor does.
Status Simulator::matchEndpoints() {
  using Key = std::tuple<int64_t, int64_t, uint32_t, uint32_t>; // from, to, channel, sequence
  auto keyOf = [](const Plan &plan, const Endpoint &e) {
    bool isSend = e.direction == Direction::Send;
    return Key(isSend ? plan.rank : e.peer, isSend ? e.peer : plan.rank, e.channel, e.sequence);
  };
  std::map<Key, uint32_t> words[2];
  for (const Plan &plan : plans_)
    for (const Endpoint &endpoint : plan.endpoints)
      words[endpoint.direction == Direction::Send][keyOf(plan, endpoint)] = endpoint.word;
  for (RankState &state : ranks_)
    for (const Endpoint &endpoint : state.plan->endpoints) {
      const auto &others = words[endpoint.direction != Direction::Send];
      auto found = others.find(keyOf(*state.plan, endpoint));
      if (found == others.end())
        return Status(StatusCode::BadInput,
                      fmt::format("{} on rank {} meets nothing on rank {}",
                                  describeOrigin(*state.plan, endpoint.origin), state.plan->rank,
                                  endpoint.peer));
      state.peerWord.push_back(found->second);
    }
  return Status::ok();
}

Status Simulator::setUp() {
  ranks_.resize(plans_.size());
  for (size_t rank = 0; rank < plans_.size(); ++rank) {
    if (plans_[rank].rank != static_cast<int64_t>(rank) ||
        plans_[rank].ranks != static_cast<int64_t>(plans_.size()))
      return Status(StatusCode::BadInput,
                    fmt::format("expected the Plan of rank {} of {}, got that of rank {} of {}",
                                rank, plans_.size(), plans_[rank].rank, plans_[rank].ranks));
    if (Status status = setUpRank(ranks_[rank], plans_[rank]); !status.isOk())
      return status;
  }
  pending_.resize(lanes_.size());
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
    ready_.push_back(lane);
  return matchEndpoints();
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
    pending_[number] = {.rate = -1};
    span(lane).beginUs = issued;
    return at(issued, number);
  }
  if (span(lane).beginUs == kNever)
    span(lane).beginUs = now_;
  begin(number, commandOf(lane));
}

void Simulator::begin(uint32_t number, const Command &command) {
  Lane &lane = lanes_[number];
  RankState &rank = ranks_[lane.rank];
  lane.isBusy = true;
  pending_[number] = {};
  switch (command.kind) {
  case CommandKind::Copy:
  case CommandKind::Add:
    return beginCopy(number, command);
  case CommandKind::Matmul:
    return beginProduct(number, command);
  case CommandKind::Signal:
    return at(now_ + costs_.signalUs, number);
  case CommandKind::Record:
    return end(number);
  case CommandKind::Await:
    if (rank.wordSetUs[command.word] != kNever)
      return at(std::max(now_, rank.wordSetUs[command.word]) + costs_.awaitUs, number);
    rank.wordLane[command.word] = number;
    lane.isBusy = false;
    return;
  case CommandKind::WaitEvent: {
    const uint32_t record = rank.record[lane.command()];
    if (record == kNone)
      return end(number);
    const double recorded = result_.spans[lane.rank][record].endUs;
    if (recorded != kNever)
      return at(std::max(now_, recorded + costs_.eventUs), number);
    rank.waitLanes.push_back(number);
    lane.isBusy = false;
    return;
  }
  }
}

void Simulator::beginCopy(uint32_t number, const Command &command) {
  const uint32_t rank = lanes_[number].rank;
  const CopyCost *cost = &costs_.local;
  uint32_t from = rank, to = rank;
  if (command.endpoint != kNone) {
    const uint32_t peer =
        static_cast<uint32_t>(ranks_[rank].plan->endpoints[command.endpoint].peer);
    const bool isPull = command.src.buffer == kPeerBuffer;
    cost = isPull ? &costs_.pull : &costs_.push;
    (isPull ? from : to) = peer;
  }
  pending_[number] = {number,
                      false,
                      static_cast<double>(command.dst.bytes),
                      0,
                      cost->bytesPerUs,
                      cost->sharedBytesPerUs,
                      from,
                      to};
  at(now_ + cost->fixedUs, number);
}

void Simulator::beginProduct(uint32_t number, const Command &command) {
  const RankState &rank = ranks_[lanes_[number].rank];
  const ProductCost &cost = rank.costs[command.matmul];
  const bool isEmpty = rank.plan->matmuls[command.matmul].m == 0;
  pending_[number] = {.lane = number,
                      .isProduct = true,
                      .left = isEmpty ? 0 : cost.us * cost.share,
                      .limit = cost.share};
  startFlow(number);
}

void Simulator::startFlow(uint32_t number) {
  flows_.push_back(pending_[number]);
  pending_[number] = {};
  haveFlowsChanged_ = true;
}

/// The lane's command is over.
void Simulator::end(uint32_t number) {
  Lane &lane = lanes_[number];
  RankState &rank = ranks_[lane.rank];
  const Command &command = commandOf(lane);
  span(lane).endUs = now_;
  if (command.kind == CommandKind::Signal) {
    const uint32_t peer = static_cast<uint32_t>(rank.plan->endpoints[command.endpoint].peer);
    const uint32_t word = rank.peerWord[command.endpoint];
    ranks_[peer].wordSetUs[word] = now_ + costs_.flightUs;
    if (ranks_[peer].wordLane[word] != kNone)
      ready_.push_back(ranks_[peer].wordLane[word]);
  } else if (command.kind == CommandKind::Record) {
    ready_.insert(ready_.end(), rank.waitLanes.begin(), rank.waitLanes.end());
    rank.waitLanes.clear();
  }
  ++lane.next;
  lane.isBusy = false;
  ready_.push_back(number);
}

// -- What is shared. --

/// Each copy gets an even part of the links it goes through.
void Simulator::shareLinks() {
  std::vector<uint32_t> leaving(ranks_.size(), 0), reaching(ranks_.size(), 0), within = leaving;
  for (const Flow &flow : flows_)
    if (!flow.isProduct) {
      ++(flow.from == flow.to ? within : leaving)[flow.from];
      reaching[flow.to] += flow.from != flow.to;
    }
  for (Flow &flow : flows_)
    if (!flow.isProduct) {
      uint32_t most = flow.from == flow.to ? within[flow.from]
                                           : std::max(leaving[flow.from], reaching[flow.to]);
      flow.rate = std::min(flow.limit, flow.shared / most);
    }
}

void Simulator::share() {
  if (!haveFlowsChanged_)
    return;
  haveFlowsChanged_ = false;
  shareLinks();
  std::vector<double> free(ranks_.size(), 1);
  for (Flow &flow : flows_)
    if (flow.isProduct) {
      double &left = free[lanes_[flow.lane].rank];
      flow.rate = std::min(flow.limit, left);
      left -= flow.rate;
    }
}

// -- Time. --

double Simulator::nextMoment() const {
  double next = timers_.empty() ? kNever : timers_.top().us;
  for (const Flow &flow : flows_)
    if (flow.rate > 0)
      next = std::min(next, now_ + flow.left / flow.rate);
  return next;
}

void Simulator::moveTo(double us) {
  const double passed = us - now_;
  now_ = us;
  size_t kept = 0;
  for (Flow &flow : flows_) {
    flow.left -= flow.rate * passed;
    if (flow.left > flow.rate * tolerance() || (flow.rate == 0 && flow.left > 0)) {
      flows_[kept++] = flow;
      continue;
    }
    end(flow.lane);
    haveFlowsChanged_ = true;
  }
  flows_.resize(kept);
  while (!timers_.empty() && timers_.top().us <= now_ + tolerance()) {
    const uint32_t lane = timers_.top().lane;
    timers_.pop();
    if (pending_[lane].rate < 0) { // it was issued just now
      lanes_[lane].isBusy = false;
      ready_.push_back(lane);
    } else if (pending_[lane].limit > 0) {
      startFlow(lane);
    } else {
      end(lane);
    }
  }
}

Status Simulator::deadlock() const {
  std::string text = "the simulated run cannot end";
  for (const Lane &lane : lanes_)
    if (!lane.isDone())
      text += fmt::format("\n  rank {} waits in {}", lane.rank,
                          describeOrigin(*ranks_[lane.rank].plan, commandOf(lane).origin));
  return Status(StatusCode::TimedOut, text);
}

Result<Simulation> Simulator::run() {
  if (Status status = setUp(); !status.isOk())
    return status;
  for (;;) {
    for (size_t i = 0; i < ready_.size(); ++i) // grows meanwhile
      advance(ready_[i]);
    ready_.clear();
    share();
    const double next = nextMoment();
    if (next == kNever)
      break;
    moveTo(next);
  }
  for (const Lane &lane : lanes_)
    if (!lane.isDone())
      return deadlock();
  result_.us = now_ + costs_.runUs;
  return std::move(result_);
}

} // namespace

Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options) {
  const OperationCosts *costs = model.find(options.issuing, options.means);
  if (!costs)
    return Status(StatusCode::Unsupported,
                  fmt::format("the cost model knows no operations issued as {} with {}",
                              name(options.issuing).str(), str(options.means)));
  return Simulator(plans, model, *costs).run();
}

} // namespace braid
