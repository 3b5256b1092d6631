//===- api/gather_timer.cpp - times rows of gather+matmul on one rank of a job ----------------===//

#include "api/gather_timer.h"

#include "api/plans.h"

#include <algorithm>

namespace braid {
struct GatherTimer::Lowered {
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
  const double each = us > 0 ? us + restUs : 0;
  auto fit = [&](int64_t wanted, int64_t least, double time) {
    int64_t most = static_cast<int64_t>(std::min(time / each, 1e9));
    return std::min(wanted, std::max(most, least));
  };
  if (limitUs > 0 && each > 0) {
    fitting.warmUp = fit(warmUp, 1, limitUs * kShareOfWarmUp);
    fitting.iterations = fit(iterations, 3, limitUs);
  }
  fitting.warmUp = std::max(fitting.warmUp, runsToSettle(settleUs, each));
  return fitting;
}

double settlingUs(const GatherShape &shape) {
  return settlingUs(2.0 * double(shape.m) * double(shape.n) * double(shape.k));
}

GatherTimer::GatherTimer(Cluster &cluster, DType dtype, TimedPlans &plans, Barrier barrier)
    : cluster_(cluster), plans_(plans), barrier_(std::move(barrier)),
      tensors_(device(), dtype, cluster.firstHosted()) {}

GatherTimer::~GatherTimer() = default;

int64_t GatherTimer::allocatedBytes() const { return preparedBytes_ + tensors_.allocatedBytes(); }

int64_t GatherTimer::loweredRows() const { return static_cast<int64_t>(all_.size()); }

const std::string &GatherTimer::choiceOf(const GatherRow &row) const {
  return rows_.at(row.name)->chosen.choice;
}

/// Where a row that leaves the choice to Braid gets it from.
Result<ChosenRow> GatherTimer::decide(const GatherRow &row) {
  if (!row.isAuto)
    return ChosenRow{row, ""};
  if (!chooser_)
    return Status(StatusCode::Unsupported, row.name + ": nothing here chooses");
  return chooser_(row);
}

Status GatherTimer::lower(const GatherRow &asked) {
  if (rows_.count(asked.name))
    return Status::ok();
  Result<ChosenRow> chosen = decide(asked);
  if (!chosen)
    return chosen.status();
  const GatherRow &row = chosen->row;
  if (!device().offers(row.means))
    return Status(StatusCode::Unsupported,
                  row.name + ": this backend has no such way to copy or to signal");
  std::unique_ptr<Source> source = parseSource(row.name, row.text);
  Result<Compiled> compiled = compile(*source, row.options);
  if (!compiled)
    return source->diags.hasErrors() ? Status(compiled.status().code(), source->diags.str())
                                     : compiled.status().annotated(row.name);
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  if (!plans)
    return plans.status();
  plans_.push_back(std::move(*plans));
  all_.push_back({std::move(*chosen), plans_.back()});
  rows_[asked.name] = &all_.back();
  return Status::ok();
}

void GatherTimer::forgetRows() {
  for (auto &[name, lowered] : rows_)
    lowered->prepared.reset();
  rows_.clear();
}

/// Binds a row to the tensors that all rows share.
Status GatherTimer::bindRow(Lowered &lowered) {
  const Plan &plan = lowered.plans[static_cast<size_t>(cluster_.firstHosted())];
  Result<std::unique_ptr<Prepared>> prepared =
      prepare(plan, device(), transport(), lowered.chosen.row.means);
  if (!prepared)
    return prepared.status();
  Result<std::vector<void *>> inputs = tensors_.inputsOf(plan);
  if (!inputs)
    return inputs.status();
  Result<std::vector<void *>> outputs = tensors_.outputsOf(plan);
  if (!outputs)
    return outputs.status();
  lowered.prepared = std::move(*prepared);
  lowered.inputs = std::move(*inputs);
  lowered.outputs = std::move(*outputs);
  preparedBytes_ += plan.symmetricBytes + plan.deviceBytes;
  return Status::ok();
}

Status GatherTimer::prepareRow(Lowered &lowered, bool isGraphed) {
  if (!lowered.prepared)
    if (Status status = bindRow(lowered); !status.isOk())
      return status;
  if (!isGraphed || lowered.isCaptured)
    return Status::ok();
  lowered.isCaptured = true;
  return lowered.prepared->capture(lowered.constInputs(), lowered.outputs);
}

/// One run, from the barrier on, after a rest.
Result<double> GatherTimer::timeOnce(Lowered &lowered, bool isGraphed, double restUs) {
  const std::vector<const void *> inputs = lowered.constInputs();
  if (Status status = meetAt(barrier_, device(), restUs); !status.isOk())
    return status;
  Result<RunTime> time =
      timeRun(*lowered.prepared, device(), isGraphed ? Issuing::Graph : Issuing::Eager, inputs,
              lowered.outputs);
  if (!time)
    return time.status();
  return time->us;
}

Result<std::vector<double>> GatherTimer::time(const GatherRow &row, const BenchTiming &timing) {
  Lowered &lowered = *rows_.at(row.name);
  const bool isGraphed = row.isAuto ? lowered.chosen.row.isGraphed : row.isGraphed;
  cluster_.setPlans(lowered.plans);
  if (Status status = prepareRow(lowered, isGraphed); !status.isOk())
    return status;
  auto once = [&] { return timeOnce(lowered, isGraphed, timing.restUs); };
  Result<double> us = warmUp(
      transport(), [&](double each) { return timing.within(each).warmUp; }, once);
  if (!us)
    return us.status();
  const int64_t iterations = timing.within(*us).iterations;
  std::vector<double> mine;
  for (int64_t i = 0; i < iterations; ++i) {
    Result<double> time = once();
    if (!time)
      return time.status();
    mine.push_back(*time);
  }
  return maximaOverRanks(transport(), mine);
}

} // namespace braid
