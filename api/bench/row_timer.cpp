//===- api/bench/row_timer.cpp - times rows of a bench on one rank of a job -------------------===//

#include "api/bench/row_timer.h"

#include "api/bench/bench_results.h"
#include "api/plans.h"
#include "ir/failure.h"
#include "runtime/plan/plan_parts.h"

#include <algorithm>

namespace braid {
namespace {

Plan partOf(Plan plan, PlanPart part) {
  switch (part) {
  case PlanPart::All:
    return plan;
  case PlanPart::Gemms:
    return gemmsOf(std::move(plan));
  case PlanPart::Transfers:
    return transfersOf(std::move(plan));
  }
  llvm_unreachable("covered above");
}

/// Of a program that somebody wrote, the order of additions is to be proved.
Status checkOrder(const Compiled &compiled, llvm::ArrayRef<Plan> plans) {
  if (compiled.isLowered || !compiled.fusion)
    return Status::ok();
  Result<CheckReport> report = check(plans, compiled.fusion, {.ordered = true});
  if (!report)
    return report.status();
  return report->isSafe()
             ? Status::ok()
             : Status(StatusCode::Rejected, compiled.program->name() + " is " + str(*report));
}

} // namespace

struct RowTimer::Lowered {
  ChosenRow chosen;
  const std::vector<Plan> &plans;
  // Once it has been prepared.
  std::unique_ptr<Prepared> prepared = nullptr;
  std::vector<void *> inputs = {}, outputs = {};
  bool isCaptured = false;

  std::vector<const void *> constInputs() const { return {inputs.begin(), inputs.end()}; }
};

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

RowTimer::RowTimer(Cluster &cluster, DType dtype, TimedPlans &plans, Barrier barrier)
    : cluster_(cluster), plans_(plans), barrier_(std::move(barrier)),
      tensors_(device(), dtype, cluster.firstHosted()) {}

RowTimer::~RowTimer() = default;

int64_t RowTimer::allocatedBytes() const { return preparedBytes_ + tensors_.allocatedBytes(); }

int64_t RowTimer::loweredRows() const { return static_cast<int64_t>(all_.size()); }

const std::string &RowTimer::choiceOf(const TimedRow &row) const {
  return rows_.at(row.name)->chosen.choice;
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
  if (!device().offers(row.transferMode))
    return unsupported("{}: this backend has no such way to copy or to signal", row.name);
  std::unique_ptr<Source> source = parseSource(row.name, row.text);
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
  plans_.push_back(std::move(plans));
  all_.push_back({std::move(chosen), plans_.back()});
  rows_[asked.name] = &all_.back();
  return Status::ok();
}

void RowTimer::forgetRows() {
  for (auto &[name, lowered] : rows_)
    lowered->prepared.reset();
  rows_.clear();
}

/// Binds a row to the tensors that all rows share.
Status RowTimer::bindRow(Lowered &lowered) {
  const Plan &plan = lowered.plans[static_cast<size_t>(cluster_.firstHosted())];
  auto prepared = BRAID_TRY(prepare(plan, device(), transport(), lowered.chosen.row.transferMode));
  lowered.inputs = BRAID_TRY(tensors_.inputsOf(plan));
  lowered.outputs = BRAID_TRY(tensors_.outputsOf(plan));
  lowered.prepared = std::move(prepared);
  preparedBytes_ += plan.symmetricBytes + plan.deviceBytes;
  return Status::ok();
}

Status RowTimer::prepareRow(Lowered &lowered, bool isGraphed) {
  if (!lowered.prepared)
    BRAID_TRY(bindRow(lowered));
  if (!isGraphed || lowered.isCaptured)
    return Status::ok();
  lowered.isCaptured = true;
  return lowered.prepared->capture(lowered.constInputs(), lowered.outputs);
}

/// One run, from the barrier on, after an idle gap.
Result<double> RowTimer::timeOnce(Lowered &lowered, bool isGraphed, double idleGapUs) {
  const std::vector<const void *> inputs = lowered.constInputs();
  BRAID_TRY(meetAt(barrier_, device(), idleGapUs));
  RunTime time = BRAID_TRY(timeRun(*lowered.prepared, device(),
                                   isGraphed ? LaunchMode::Graph : LaunchMode::Eager, inputs,
                                   lowered.outputs));
  return time.us;
}

Result<RowTimes> RowTimer::time(const TimedRow &row, const BenchTiming &timing) {
  Lowered &lowered = *rows_.at(row.name);
  const bool isGraphed = row.isAuto ? lowered.chosen.row.isGraphed : row.isGraphed;
  cluster_.setPlans(lowered.plans);
  BRAID_TRY(prepareRow(lowered, isGraphed));
  Result<std::vector<double>> runs = timeRuns(lowered, isGraphed, timing);
  if (!runs || timing.bursts == 0)
    return runs ? Result<RowTimes>({std::move(*runs), {}}) : runs.status();
  Result<std::vector<double>> bursts =
      timeBursts(lowered, isGraphed, timing, spreadOf(*runs).median);
  return bursts ? Result<RowTimes>({std::move(*runs), std::move(*bursts)}) : bursts.status();
}

Result<std::vector<double>> RowTimer::timeRuns(Lowered &lowered, bool isGraphed,
                                               const BenchTiming &timing) {
  auto once = [&] { return timeOnce(lowered, isGraphed, timing.idleGapUs); };
  double us = BRAID_TRY(warmUp(
      transport(), [&](double each) { return timing.within(each).warmUp; }, once));
  const int64_t iterations = timing.within(us).iterations;
  std::vector<double> mine;
  for (int64_t i = 0; i < iterations; ++i) {
    mine.push_back(BRAID_TRY(once()));
  }
  return maximaOverRanks(transport(), mine);
}

/// Bursts of runs that take `us` each when they are alone, on every rank the same number.
Result<std::vector<double>> RowTimer::timeBursts(Lowered &lowered, bool isGraphed,
                                                 const BenchTiming &timing, double us) {
  const int64_t runs = BenchTiming::runsOfBurst(us);
  const int64_t untimed = 1 + runsToWarmUp(timing.warmUpUs, std::max(us, 1e-3) * double(runs));
  const std::vector<const void *> inputs = lowered.constInputs();
  std::vector<double> mine;
  for (int64_t i = -untimed, timed = timing.within(us).bursts; i < timed; ++i) {
    BRAID_TRY(meetAt(barrier_, device(), timing.idleGapUs));
    double time = BRAID_TRY(timeBurst(*lowered.prepared, device(),
                                      isGraphed ? LaunchMode::Graph : LaunchMode::Eager, runs,
                                      inputs, lowered.outputs));
    if (i >= 0)
      mine.push_back(time);
  }
  return maximaOverRanks(transport(), mine);
}

} // namespace braid
