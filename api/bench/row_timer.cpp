//===- api/bench/row_timer.cpp - times rows of a bench on one rank of a job -------------------===//

#include "api/bench/row_timer.h"

#include "api/autotune/candidates.h"
#include "api/compile/plans.h"
#include "ir/failure.h"

#include <algorithm>
#include <limits>

namespace braid {
namespace {

constexpr int64_t kLeast = 3;                    ///< minimum number of timed runs, and of bursts
constexpr int64_t kWarmUp = 5, kWarmUpAgain = 2; ///< warm-up runs in the first and in later rounds
constexpr double kBurstUs = 10e3;                ///< approximate duration of a burst
constexpr int64_t kMostOfBurst = 10000;

} // namespace

Result<RowTimer::Lowered> RowTimer::lower(TimedRow row) {
  std::string choice;
  if (row.isAuto) {
    const Configurations schedule = BRAID_TRY(chooser_(row));
    row.options = applyTo(row.options, schedule);
    row.isGraphed = launchModeOf(schedule.all) == LaunchMode::Graph;
    choice = schedule.str();
  }
  const Configuration &config = row.options.schedule.all;
  if (!timer_.device().peerMemory()->offers(transferModeOf(config)))
    return unsupported("this backend does not support the selected copy, signal or memory mode");
  if (transportOf(config, row.options.transport) == Transport::Messages &&
      !timer_.device().messages())
    return unsupported("this backend cannot send messages");
  std::unique_ptr<Source> source = parseSource(row.file, row.text);
  Result<Compiled> compiled = compile(*source, row.options);
  if (!compiled)
    return source->diags.hasErrors() ? compiled.status() : compiled.status().annotated(row.name);
  std::vector<Plan> plans = BRAID_TRY(makePlans(*compiled));
  if (row.options.reproducible && compiled->fusion && !compiled->isLowered) // lowered by the user
    BRAID_TRY(expectSafe(*compiled, plans, {.ordered = true}));
  double flops = 0;
  for (Plan &plan : plans) {
    flops = std::max(flops, flopsOf(plan));
    plan = partOf(std::move(plan), row.kind);
    if (plan.streams.size() > kMaxPlanStreams)
      return unsupported("expected at most {} streams, got {}", kMaxPlanStreams,
                         plan.streams.size());
  }
  if (row.kind == RowKind::Transfers)
    flops = 0;
  return Lowered{std::move(row), std::move(choice), flops, std::move(plans)};
}

/// Lowers the row unless it has already been lowered. Ranks communicate only to choose the schedule
/// for `auto`. If one rank rejects a row, all ranks reject it.
BenchRow RowTimer::begin(const TimedRow &row) {
  BenchRow result{.name = row.name, .kind = row.kind, .isGraphed = row.isGraphed};
  auto found = lowered_.find(row.name);
  if (found == lowered_.end()) {
    Result<Lowered> lowered = lower(row);
    if (!lowered) {
      result.fail(lowered.status());
      return result;
    }
    found = lowered_.emplace(row.name, std::move(*lowered)).first;
  }
  const Lowered &lowered = found->second;
  result.flops = lowered.flops;
  result.choice = lowered.choice;
  result.isGraphed = (row.isAuto ? lowered.row : row).isGraphed;
  return result;
}

Result<std::vector<BenchRow>> RowTimer::time(llvm::ArrayRef<TimedRow> rows,
                                             const BenchTiming &timing) {
  std::vector<BenchRow> results;
  double flops = 0;
  for (const TimedRow &row : rows) {
    results.push_back(begin(row));
    flops = std::max(flops, results.back().flops);
  }
  // Warm up all rows equally: a power-limited GPU runs faster after a row that drew less power.
  warmUpUs_ = timer_.warmUpTimeUs(flops);
  for (int64_t round = 0; round < timing.rounds; ++round)
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t turn = round % 2 == 0 ? i : rows.size() - 1 - i;
      if (results[turn].failure.empty())
        BRAID_TRY(timeOnce(rows[turn], timing, results[turn]));
    }
  return results;
}

/// Times a single round of a row.
Status RowTimer::timeOnce(const TimedRow &row, const BenchTiming &timing, BenchRow &result) {
  Lowered &lowered = lowered_.at(row.name);
  const LaunchMode mode = result.isGraphed ? LaunchMode::Graph : LaunchMode::Eager;
  if (!lowered.ready)
    lowered.ready = BRAID_TRY(timer_.makeReady(std::move(lowered.plans), mode,
                                               transferModeOf(lowered.row.options.schedule.all)));
  BRAID_TRY(timer_.issueAs(*lowered.ready, mode));
  const double budgetUs = timing.rowUs > 0 ? timing.rowUs : std::numeric_limits<double>::max();
  const std::vector<RunTime> runs = BRAID_TRY(
      timer_.sample(*lowered.ready, {.warmUp = result.rounds.empty() ? kWarmUp : kWarmUpAgain,
                                     .least = std::min(kLeast, timing.iterations),
                                     .most = timing.iterations,
                                     .budgetUs = budgetUs,
                                     .warmUpUs = warmUpUs_}));
  std::vector<double> &times = result.rounds.emplace_back();
  for (const RunTime &run : runs)
    times.push_back(run.us);
  if (timing.bursts == 0)
    return Status::ok();
  const int64_t bursts = (timing.bursts - 1) / timing.rounds + 1;
  const std::vector<double> all =
      BRAID_TRY(timer_.sampleBursts(*lowered.ready, spreadOf(times).median,
                                    {.runs = kMostOfBurst,
                                     .least = std::min(kLeast, bursts),
                                     .bursts = bursts,
                                     .budgetUs = budgetUs,
                                     .warmUpUs = std::max(warmUpUs_, 1.0), // at least one burst
                                     .burstUs = kBurstUs}));
  result.bursts.insert(result.bursts.end(), all.begin(), all.end());
  return Status::ok();
}

} // namespace braid
