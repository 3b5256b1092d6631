//===- api/calibrate/job_model.cpp - the cost model of a job, stored between jobs -------------===//

#include "api/calibrate/job_model.h"

#include "api/timing/seconds_since.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace braid {

using Clock = std::chrono::steady_clock;

JobModel::JobModel(PlanTimer &timer, JobModelOptions options)
    : timer_(timer), options_(std::move(options)) {
  if (timer.rank() != 0)
    return;
  // The duration of a GEMM depends on the algorithm that tuning chose.
  const GemmTuning *tuning = timer.device().compute().tuning();
  const std::string machine =
      fmt::format("{}, {}, {}", options_.cacheKey, timer.device().description(),
                  tuning ? tuning->tuningKey() : "");
  cache_ = std::make_unique<MeasurementCache>(options_.cacheFolder, machine, options_.warn);
}

std::string JobModel::key() const {
  const std::string hosts = timer_.ranksPerHost() == timer_.ranks()
                                ? ""
                                : fmt::format(", {} on a host", timer_.ranksPerHost());
  return fmt::format("cost model of {} ranks{}, {}", timer_.ranks(), hosts, options_.cacheKey);
}

bool JobModel::isComplete() const {
  return llvm::all_of(options_.launchModes, [&](LaunchMode mode) {
    return llvm::all_of(options_.transferModes,
                        [&](TransferMode transferMode) { return model_.find(mode, transferMode); });
  });
}

Result<bool> JobModel::isKept() {
  const std::string text =
      BRAID_TRY(timer_.fromRankZero(cache_ ? cache_->find(key()).value_or("") : ""));
  Result<CostModel> known = CostModel::decode(text);
  if (known)
    model_ = std::move(*known);
  else if (!text.empty() && timer_.rank() == 0 && options_.warn)
    options_.warn("the kept cost model is measured again: " + known.status().message());
  return known && isComplete();
}

void JobModel::keep(const std::string &key, std::string value) {
  if (!cache_)
    return;
  cache_->set(key, std::move(value));
  cache_->save();
}

Status JobModel::find(const std::vector<Transport> &transports) {
  if (BRAID_TRY(isKept())) {
    path_ = path();
    return Status::ok();
  }
  return addMore("measured",
                 [&]() -> Result<bool> {
                   CalibrationOptions open = options_;
                   open.transports = transports;
                   take(BRAID_TRY(calibrate(timer_, open))); // known GEMMs stay
                   return true;
                 })
      .status();
}

/// Adds measurements, which replace older ones.
void JobModel::take(const CostModel &measured) {
  for (const OperationCosts &costs : measured.operations)
    model_.add(costs);
  for (const GemmCost &gemm : measured.gemms)
    model_.add(gemm);
  model_.machine = measured.machine;
  model_.ranks = measured.ranks;
  model_.network = measured.network;
}

/// Calls `measure`, which returns true if it measured anything, and records the duration.
Result<bool> JobModel::addMore(const std::string &what,
                               llvm::function_ref<Result<bool>()> measure) {
  const Clock::time_point start = Clock::now();
  if (!BRAID_TRY(measure()))
    return false;
  auto known = llvm::find_if(seconds_, [&](const auto &each) { return each.first == what; });
  if (known == seconds_.end())
    known = seconds_.insert(known, {what, 0});
  known->second += secondsSince(start);
  BRAID_TRY(keepModel());
  return true;
}

Result<bool> JobModel::addGemms(llvm::ArrayRef<PlanMatmul> shapes) {
  return addMore("GEMMs", [&] { return measureGemms(model_, shapes, timer_, options_); });
}

/// Keeps results that other jobs have stored meanwhile, unless this job has measured them, too. The
/// ranks' measurements differ; those of rank 0, which are maxima, are used.
Status JobModel::keepModel() {
  if (cache_) {
    cache_->refresh();
    if (Result<CostModel> theirs = CostModel::decode(cache_->find(key()).value_or(""))) {
      const CostModel mine = std::exchange(model_, std::move(*theirs));
      take(mine);
    }
  }
  std::string text = BRAID_TRY(timer_.fromRankZero(model_.encode()));
  model_ = BRAID_TRY(CostModel::decode(text));
  keep(key(), std::move(text));
  return Status::ok();
}

std::string JobModel::source() const {
  std::string text = path_.empty() ? "" : "from " + path_;
  for (const auto &[what, seconds] : seconds_)
    text += fmt::format("{}{} in {:.2f} s", text.empty() ? "" : ", ", what, seconds);
  return text;
}

} // namespace braid
