//===- api/calibrate/job_model.cpp - a job's cost model, stored for later jobs ----------------===//

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
  // GEMM times depend on the algorithms that tuning chooses.
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

Result<bool> JobModel::isKept() {
  const std::string text =
      BRAID_TRY(timer_.fromRankZero(cache_ ? cache_->find(key()).value_or("") : ""));
  Result<CostModel> known = CostModel::decode(text);
  if (known)
    model_ = std::move(*known);
  else if (!text.empty() && timer_.rank() == 0 && options_.warn)
    options_.warn("measuring the cost model again, because the stored one is unusable: " +
                  known.status().message());
  return known && llvm::all_of(options_.launchModes, [&](LaunchMode mode) {
           return llvm::all_of(options_.transferModes, [&](TransferMode transferMode) {
             return model_.find(mode, transferMode);
           });
         });
}

void JobModel::keep(const std::string &key, std::string value) {
  if (!cache_)
    return;
  cache_->set(key, std::move(value));
  cache_->save();
}

Status JobModel::find() {
  if (BRAID_TRY(isKept())) {
    path_ = path();
    return Status::ok();
  }
  return measure([&]() -> Result<bool> {
           const CostModel measured = BRAID_TRY(calibrate(timer_, options_));
           for (const OperationCosts &costs : measured.operations)
             model_.add(costs); // preserves other modes and known GEMMs
           model_.machine = measured.machine;
           model_.ranks = measured.ranks;
           return true;
         })
      .status();
}

Result<bool> JobModel::addGemms(llvm::ArrayRef<PlanMatmul> shapes) {
  return measure([&] { return measureGemms(model_, shapesToMeasure(shapes), timer_, options_); });
}

/// Calls `measure`, which returns true if it measured anything. The models may then differ between
/// ranks, so all ranks use rank 0's model, which consists of maxima over the ranks.
Result<bool> JobModel::measure(llvm::function_ref<Result<bool>()> measure) {
  const Clock::time_point start = Clock::now();
  if (!BRAID_TRY(measure()))
    return false;
  seconds_ += secondsSince(start);
  std::string text = BRAID_TRY(timer_.fromRankZero(model_.encode()));
  model_ = BRAID_TRY(CostModel::decode(text));
  keep(key(), std::move(text));
  return true;
}

std::string JobModel::source() const {
  const std::string from = path_.empty() ? "" : "from " + path_;
  const std::string measured = seconds_ > 0 ? fmt::format("measured in {:.2f} s", seconds_) : "";
  return from + (from.empty() || measured.empty() ? "" : ", ") + measured;
}

} // namespace braid
