//===- api/calibrate/job_model.cpp - the cost model of a job, kept between jobs ---------------===//

#include "api/calibrate/job_model.h"

#include "api/calibrate/measure_gemms.h"
#include "api/calibrate/measure_messages.h"
#include "api/calibrate/measure_power.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

} // namespace

JobModel::JobModel(PlanTimer &timer, JobModelOptions options)
    : timer_(timer), options_(std::move(options)) {
  if (timer.rank() != 0)
    return;
  // GEMMs take as long as they do by the algorithms that tuning chooses.
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

/// Where the host's own cores do the work, all is slow, and its memory is that of all ranks.
CalibrationOptions calibrationOptions(PlanTimer &timer, const JobModelOptions &options) {
  CalibrationOptions calibration;
  calibration.launchModes = options.launchModes;
  calibration.transferModes = options.transferModes;
  calibration.reachesPeers = llvm::is_contained(options.transports, Transport::PeerMemory);
  if (!timer.device().sharesHostMemory()) {
    constexpr int64_t kLarge = 4096;
    calibration.limitedByPower =
        PlanMatmul{DType::BF16, kLarge, kLarge, kLarge, false, {}, {}, {}, {}};
    return calibration;
  }
  calibration.largeBytes = int64_t(1) << 20;
  calibration.effort = {.warmUp = 1, .least = 1, .most = 7, .budgetUs = 5000};
  return calibration;
}

/// For all that was asked about, but for GEMMs.
bool JobModel::isComplete() const {
  return llvm::all_of(options_.launchModes, [&](LaunchMode mode) {
    return llvm::all_of(options_.transferModes,
                        [&](TransferMode transferMode) { return model_.find(mode, transferMode); });
  });
}

Result<std::string> JobModel::kept(const std::string &key) {
  return timer_.fromRankZero(cache_ ? cache_->find(key).value_or("") : "");
}

void JobModel::keep(const std::string &key, std::string value) {
  if (!cache_)
    return;
  cache_->set(key, std::move(value));
  cache_->save();
}

Status JobModel::find() {
  const Clock::time_point start = Clock::now();
  std::string text = BRAID_TRY(kept(key()));
  Result<CostModel> known = CostModel::decode(text);
  if (known)
    model_ = std::move(*known);
  if (known && isComplete()) {
    path_ = path();
    return Status::ok();
  }
  if (!text.empty() && !known && timer_.rank() == 0 && options_.warn)
    options_.warn("the kept cost model is measured again: " + known.status().message());
  BRAID_TRY(measure());
  calibrationSeconds_ = secondsSince(start);
  return keepModel();
}

/// What is known of GEMMs stays.
Status JobModel::measure() {
  const CalibrationOptions options = calibrationOptions(timer_, options_);
  CostModel measured = BRAID_TRY(calibrate(timer_, options));
  BRAID_TRY(measurePower(measured, timer_, options));
  take(measured);
  return Status::ok();
}

/// In place of older figures.
void JobModel::take(const CostModel &measured) {
  for (const OperationCosts &costs : measured.operations)
    model_.add(costs);
  for (const GemmCost &gemm : measured.gemms)
    model_.add(gemm);
  for (const MessageCost &message : measured.messages)
    model_.add(message);
  model_.power = measured.power;
  model_.machine = measured.machine;
  model_.ranks = measured.ranks;
  model_.network = measured.network;
}

Result<bool> JobModel::addGemms(llvm::ArrayRef<PlanMatmul> shapes) {
  const Clock::time_point start = Clock::now();
  bool hasMeasured =
      BRAID_TRY(measureGemms(model_, shapes, timer_, calibrationOptions(timer_, options_)));
  if (!hasMeasured)
    return false;
  gemmSeconds_ += secondsSince(start);
  BRAID_TRY(keepModel());
  return true;
}

Result<bool> JobModel::addMessages(llvm::ArrayRef<const Plan *> plans) {
  const Clock::time_point start = Clock::now();
  bool hasMeasured =
      BRAID_TRY(measureMessages(model_, plans, timer_, calibrationOptions(timer_, options_)));
  if (!hasMeasured)
    return false;
  messageSeconds_ += secondsSince(start);
  BRAID_TRY(keepModel());
  return true;
}

Status JobModel::add(const CostModel &measured) {
  take(measured);
  return keepModel();
}

/// What other jobs have kept meanwhile stays, but where this one has measured, too.
void JobModel::takeUpOthers() {
  cache_->refresh();
  Result<CostModel> theirs = CostModel::decode(cache_->find(key()).value_or(""));
  if (!theirs)
    return;
  const CostModel mine = std::exchange(model_, std::move(*theirs));
  take(mine);
}

/// The measurements of other ranks differ; what rank 0 made of the maxima is what counts.
Status JobModel::keepModel() {
  if (cache_)
    takeUpOthers();
  std::string text = BRAID_TRY(timer_.fromRankZero(model_.encode()));
  model_ = BRAID_TRY(CostModel::decode(text));
  keep(key(), std::move(text));
  return Status::ok();
}

std::string JobModel::source() const {
  std::string text = calibrationSeconds_ > 0
                         ? fmt::format("measured in {:.2f} s", calibrationSeconds_)
                         : "from " + (path_.empty() ? "memory" : path_);
  if (gemmSeconds_ > 0)
    text += fmt::format(", GEMMs in {:.2f} s", gemmSeconds_);
  return messageSeconds_ > 0 ? text + fmt::format(", messages in {:.2f} s", messageSeconds_) : text;
}

} // namespace braid
