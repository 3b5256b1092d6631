//===- runtime/simulate/simulator.cpp - predicts the duration of a Plan -----------------------===//

#include "runtime/simulate/simulator.h"

#include "ir/failure.h"
#include "runtime/plan/spell_out.h"
#include "runtime/simulate/steps.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

namespace braid {
namespace {

using simulator::kNever;
using simulator::Lane;
using simulator::RankState;
using simulator::Step;

/// Times that differ by less than this, absolutely or relative to the elapsed time, are treated as
/// equal, so that ranks doing the same work advance in lockstep despite rounding.
constexpr double kSameMomentUs = 1e-6, kSamePart = 1e-12;

class Simulator {
public:
  Simulator(simulator::Job job, double signalUs)
      : signalUs_(signalUs), job_(std::move(job)), flows_(job_.ranks.size()) {
    for (const RankState &rank : job_.ranks)
      spans_.emplace_back(rank.plan->commands.size(), SimulatedSpan{kNever, kNever});
  }

  /// Returns the time at which the last command ends.
  Result<double> run() {
    for (uint32_t lane = 0; lane < job_.lanes.size(); ++lane)
      ready_.push_back(lane);
    for (;;) {
      for (size_t i = 0; i < ready_.size(); ++i) // ready_ grows during the loop
        while (goesOn(ready_[i])) {
        }
      ready_.clear();
      flows_.share();
      const double timer = timers_.empty() ? kNever : timers_.top().first;
      const double next = std::min(timer, now_ + flows_.untilNextEnd());
      if (next == kNever)
        break;
      moveTo(next);
    }
    std::string text;
    for (const Lane &lane : job_.lanes) {
      const Plan &plan = *job_.ranks[lane.rank].plan;
      if (!lane.isDone())
        text += fmt::format("\n  rank {} is waiting in {}", plan.rank,
                            describeOrigin(plan, plan.commands[lane.step().command].origin));
    }
    if (!text.empty())
      return timedOut("the simulated run cannot complete{}", text);
    return now_;
  }
  std::vector<std::vector<SimulatedSpan>> takeSpans() { return std::move(spans_); }

private:
  using Phase = Lane::Phase;

  // -- Steps. --

  /// Advances the next step of lane `number` by one phase. Returns false if the lane is blocked.
  bool goesOn(uint32_t number) {
    Lane &lane = job_.lanes[number];
    if (lane.isDone() || lane.isAsleep || lane.flows > 0)
      return false;
    switch (lane.phase) {
    case Phase::Issue:
      for (SimulatedSpan &span : spansOf(lane))
        span.beginUs = std::max(now_, lane.step().issuedUs);
      lane.phase = Phase::Meeting;
      return sleepUntil(number, lane.step().issuedUs);
    case Phase::Meeting:
      if (!meets(number))
        return false;
      lane.phase = Phase::Start;
      return sleepUntil(number, now_ + lane.step().fixedUs);
    case Phase::Start:
      if (!starts(number))
        return false;
      lane.phase = Phase::End;
      return true;
    case Phase::End:
      end(lane);
      return true;
    }
    return false;
  }

  /// Returns true if `us` has been reached; otherwise puts the lane to sleep until then.
  bool sleepUntil(uint32_t number, double us) {
    if (us <= now_ + tolerance())
      return true;
    job_.lanes[number].isAsleep = true;
    timers_.push({us, number});
    return false;
  }

  /// Returns true if all ranks have reached the step's meeting. The last lane wakes the others.
  bool meets(uint32_t number) {
    const uint32_t index = job_.lanes[number].step().meeting;
    if (index == kNone)
      return true;
    simulator::Meeting &meeting = job_.meetings[index];
    if (!llvm::is_contained(meeting.lanes, number)) {
      meeting.lanes.push_back(number);
      if (--meeting.missing == 0)
        llvm::append_range(ready_, meeting.lanes);
    }
    return meeting.missing == 0;
  }

  /// Starts the step's work and returns true, or returns false if its flag or record is pending.
  bool starts(uint32_t number) {
    Lane &lane = job_.lanes[number];
    const Step &step = lane.step();
    if (step.flag != kNone) {
      const double set = job_.ranks[lane.rank].flagSetUs[step.flag];
      return set != kNever && sleepUntil(number, set);
    }
    if (step.record != kNone)
      return spans_[lane.rank][step.record].endUs != kNever;
    lane.flows = step.work.size();
    for (const simulator::Flow &flow : step.work)
      flows_.start(flow);
    return true;
  }

  /// Ends the lane's step. A signal's flag is set on the peer after the signal latency.
  void end(Lane &lane) {
    const RankState &rank = job_.ranks[lane.rank];
    for (SimulatedSpan &span : spansOf(lane))
      span.endUs = now_;
    for (const Command &command :
         llvm::ArrayRef(rank.plan->commands).slice(lane.step().command, lane.step().count))
      if (command.kind == CommandKind::Signal) {
        const simulator::PlacedFlag &flag = rank.peerFlags[command.endpoint];
        job_.ranks[flag.rank].flagSetUs[flag.flag] = now_ + signalUs_;
        wakeLanes(job_.ranks[flag.rank]);
      } else if (command.kind == CommandKind::Record) {
        wakeLanes(rank);
      }
    ++lane.next;
    lane.phase = Phase::Issue;
  }

  void wakeLanes(const RankState &rank) {
    for (uint32_t i = 0; i < rank.plan->streams.size(); ++i)
      ready_.push_back(rank.firstLane + i);
  }

  llvm::MutableArrayRef<SimulatedSpan> spansOf(const Lane &lane) {
    return llvm::MutableArrayRef(spans_[lane.rank]).slice(lane.step().command, lane.step().count);
  }

  // -- Time. --

  void moveTo(double us) {
    const double passed = us - now_;
    now_ = us;
    for (uint32_t lane : flows_.proceed(passed, tolerance()))
      if (--job_.lanes[lane].flows == 0)
        ready_.push_back(lane);
    while (!timers_.empty() && timers_.top().first <= now_ + tolerance()) {
      const uint32_t lane = timers_.top().second;
      timers_.pop();
      job_.lanes[lane].isAsleep = false;
      ready_.push_back(lane);
    }
  }

  double tolerance() const { return std::max(kSameMomentUs, now_ * kSamePart); }

  const double signalUs_;
  simulator::Job job_;
  std::vector<std::vector<SimulatedSpan>> spans_;
  simulator::Flows flows_;
  std::vector<uint32_t> ready_;              ///< lanes that may be able to continue
  using Timer = std::pair<double, uint32_t>; ///< time and lane
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  double now_ = 0;
};

} // namespace

Result<Simulation> simulate(llvm::ArrayRef<Plan> plans, const CostModel &model,
                            const SimulationOptions &options) {
  const OperationCosts *costs = model.find(options.launchMode, options.transferMode);
  if (!costs)
    return unsupported("the cost model has no costs for launch mode {} with {}",
                       name(options.launchMode).str(), str(options.transferMode));
  Simulation simulation;
  if (plans.front().hosts() > 1)
    simulation.spelled = spellOutData(plans);
  double issueUs = 0;
  const auto simulateAs = [&](const OperationCosts &as) -> Result<double> {
    simulator::Job job = BRAID_TRY(simulator::makeJob(shownPlans(plans, simulation), model, as));
    for (const RankState &rank : job.ranks)
      issueUs = std::max(issueUs, rank.issuedUs);
    Simulator simulator(std::move(job), as.signalUs);
    const double us = BRAID_TRY(simulator.run());
    simulation.spans = simulator.takeSpans();
    return us;
  };
  OperationCosts issued = *costs; // in a burst, the host is ahead of the device
  issued.issueUs = 0;
  const double deviceUs = BRAID_TRY(simulateAs(issued));
  simulation.us = costs->runUs + (costs->issueUs > 0 ? BRAID_TRY(simulateAs(*costs)) : deviceUs);
  const bool hasLaunch = costs->launchMode == LaunchMode::Graph && plans.front().streams.size() > 1;
  simulation.burstUs = std::max(deviceUs + (hasLaunch ? costs->local.fixedUs : 0), issueUs);
  return simulation;
}

} // namespace braid
