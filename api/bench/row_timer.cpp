//===- api/bench/row_timer.cpp - times rows of a bench on one rank of a job -------------------===//

#include "api/bench/row_timer.h"

#include "api/bench/bench_results.h"
#include "api/compile/check.h"
#include "api/compile/plans.h"
#include "ir/failure.h"
#include "runtime/plan/plan_parts.h"

#include <algorithm>

namespace braid {
namespace {

Plan partOf(Plan plan, PlanPart part) {
  if (part == PlanPart::All)
    return plan;
  return part == PlanPart::Gemms ? gemmsOf(std::move(plan)) : transfersOf(std::move(plan));
}

/// Of a program that somebody wrote, the order of additions is to be proved.
Status checkOrder(const Compiled &compiled, llvm::ArrayRef<Plan> plans) {
  if (compiled.isLowered || !compiled.fusion)
    return Status::ok();
  return expectSafe(compiled, plans, {.ordered = true});
}

} // namespace

BenchTiming BenchTiming::within(double us) const {
  constexpr double kShareOfWarmUp = 0.25;
  BenchTiming fitting = *this;
  const double each = us > 0 ? us + idleGapUs : 0;
  auto fit = [](int64_t wanted, int64_t least, double most) {
    return std::min(wanted, std::max(least, static_cast<int64_t>(std::min(most, 1e9))));
  };
  if (limitUs > 0 && us > 0) {
    fitting.warmUp = fit(warmUp, 1, limitUs * kShareOfWarmUp / each);
    fitting.iterations = fit(iterations, 3, limitUs / each);
    fitting.bursts = fit(bursts, 3, limitUs / (us * double(runsOfBurst(us))));
  }
  fitting.warmUp = std::max(fitting.warmUp, runsToWarmUp(warmUpUs, each));
  return fitting;
}

int64_t BenchTiming::runsOfBurst(double us) {
  constexpr double kBurstUs = 10e3, kMostRuns = 1e4;
  return std::max<int64_t>(
      2, static_cast<int64_t>(std::min(kBurstUs / std::max(us, 1e-3), kMostRuns)));
}

const std::string &RowTimer::choiceOf(const TimedRow &row) const {
  return rows_.at(row.name).chosen.choice;
}

/// Where a row that leaves the choice to Braid gets it from.
Result<ChosenRow> RowTimer::decide(const TimedRow &row) {
  if (!row.isAuto)
    return ChosenRow{row, ""};
  if (!chooser_)
    return unsupported("{}: nothing here chooses", row.name);
  return chooser_(row);
}

Status RowTimer::lower(const TimedRow &asked) {
  if (rows_.count(asked.name))
    return Status::ok();
  ChosenRow chosen = BRAID_TRY(decide(asked));
  const TimedRow &row = chosen.row;
  if (!timer_.device().peerMemory()->offers(row.transferMode))
    return unsupported("{}: no such memory, or way to copy or signal, here", row.name);
  if (transportOf(row.options.schedule.all, row.options.transport) == Transport::Messages &&
      !timer_.device().messages())
    return unsupported("{}: this backend sends no messages", row.name);
  std::unique_ptr<Source> source = parseSource(row.file.empty() ? row.name : row.file, row.text);
  Result<Compiled> compiled = compile(*source, row.options);
  if (!compiled)
    return source->diags.hasErrors() ? Status(compiled.status().code(), source->diags.str())
                                     : compiled.status().annotated(row.name);
  std::vector<Plan> plans = BRAID_TRY(makePlans(*compiled));
  if (row.options.reproducible)
    if (Status status = checkOrder(*compiled, plans); !status.isOk())
      return status.annotated(row.name);
  for (Plan &plan : plans)
    plan = partOf(std::move(plan), row.part);
  rows_.emplace(asked.name, Lowered{std::move(chosen), std::move(plans)});
  return Status::ok();
}

void RowTimer::forgetRows() { rows_.clear(); }

Result<RowTimes> RowTimer::time(const TimedRow &row, const BenchTiming &timing) {
  Lowered &lowered = rows_.at(row.name);
  const TimedRow &chosen = lowered.chosen.row;
  const LaunchMode launchMode =
      (row.isAuto ? chosen : row).isGraphed ? LaunchMode::Graph : LaunchMode::Eager;
  if (!lowered.ready)
    lowered.ready =
        BRAID_TRY(timer_.makeReady(std::move(lowered.plans), launchMode, chosen.transferMode));
  BRAID_TRY(timer_.issueAs(*lowered.ready, launchMode));
  RowTimes times;
  times.us = BRAID_TRY(timeRuns(*lowered.ready, timing));
  if (timing.bursts != 0)
    times.burstUs = BRAID_TRY(timeBursts(*lowered.ready, timing, spreadOf(times.us).median));
  return times;
}

Result<std::vector<double>> RowTimer::timeRuns(TimedPlan &plan, const BenchTiming &timing) {
  auto once = [&]() -> Result<double> {
    return BRAID_TRY(timer_.timeOnce(plan, timing.idleGapUs)).us;
  };
  auto runsFor = [&](double us) { return timing.within(us).warmUp; };
  const double us = BRAID_TRY(warmUp(timer_.control(), runsFor, once));
  const int64_t iterations = timing.within(us).iterations;
  std::vector<double> mine;
  for (int64_t i = 0; i < iterations; ++i)
    mine.push_back(BRAID_TRY(once()));
  return maximaOverRanks(timer_.control(), mine);
}

/// Bursts of runs that take `us` each when they are alone, on every rank the same number.
Result<std::vector<double>> RowTimer::timeBursts(TimedPlan &plan, const BenchTiming &timing,
                                                 double us) {
  const int64_t runs = BenchTiming::runsOfBurst(us);
  const int64_t untimed = 1 + runsToWarmUp(timing.warmUpUs, std::max(us, 1e-3) * double(runs));
  std::vector<double> mine;
  for (int64_t i = -untimed, timed = timing.within(us).bursts; i < timed; ++i) {
    const double time = BRAID_TRY(timer_.timeRuns(plan, runs, timing.idleGapUs));
    if (i >= 0)
      mine.push_back(time);
  }
  return maximaOverRanks(timer_.control(), mine);
}

} // namespace braid
