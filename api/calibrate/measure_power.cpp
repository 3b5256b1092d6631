//===- api/calibrate/measure_power.cpp - measures what the power limit does to GEMMs ----------===//

#include "api/calibrate/measure_power.h"

#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int kInARow = 4, kBlocks = 4; // they have memory of their own
constexpr double kRestUs = 20000;       ///< the clock is at its highest after it
constexpr double kRestPart = 1.0 / 3;
constexpr double kMostBoost = 2;     ///< more is what else disturbed a run
constexpr double kLeastBoost = 1.02; ///< less is noise: power limits nothing here

class PowerMeasurement {
public:
  PowerMeasurement(const PlanMatmul &shape, PlanTimer &timer, const CalibrationOptions &options,
                   const OperationCosts &costs)
      : shape_(shape), timer_(timer), options_(options), costs_(costs) {}

  Result<PowerCost> measure();

private:
  int64_t hiddenBytes() const;
  calibration::Mesh mesh() const { return {timer_.ranks(), timer_.ranksPerHost()}; }
  Result<TimedPlan> ready(const std::string &text) {
    std::vector<Plan> plans = BRAID_TRY(calibration::plansOf(text));
    return timer_.makeReady(std::move(plans), costs_.launchMode, options_.transferModes.front());
  }
  Result<double> timeWithRests(TimedPlan &plan, double restUs, double forUs);

  const PlanMatmul &shape_;
  PlanTimer &timer_;
  const CalibrationOptions &options_;
  const OperationCosts costs_;
  double hotUs_ = 0; ///< of a chain at steady clocks
};

/// Of a run without what it takes besides its commands, with such a rest before each, for so long
/// that the device has settled; the median of the later half.
Result<double> PowerMeasurement::timeWithRests(TimedPlan &plan, double restUs, double forUs) {
  constexpr int64_t kLeast = 6;
  const double one = BRAID_TRY(timer_.warmUpRuns(plan, {.warmUp = 2}));
  const int64_t runs = std::max(kLeast, runsToWarmUp(forUs, one + restUs));
  std::vector<double> times;
  for (int64_t i = 0; i < runs; ++i) {
    const RunTime time = BRAID_TRY(timer_.timeOnce(plan, restUs));
    if (2 * i >= runs)
      times.push_back(time.us);
  }
  std::vector<double> most = BRAID_TRY(maximaOverRanks(timer_.control(), times));
  std::sort(most.begin(), most.end());
  return std::max(most[most.size() / 2] - costs_.runUs - costs_.issueMatmulUs, kLeastUs);
}

/// Of a block, so that GEMMs take twice as long as all blocks: or else links are measured.
int64_t PowerMeasurement::hiddenBytes() const {
  constexpr int64_t kAlignment = 16;
  const auto most = static_cast<int64_t>(hotUs_ / 2 / kBlocks * costs_.push.bytesPerUs);
  return std::min(options_.largeBytes, most) / kAlignment * kAlignment;
}

Result<PowerCost> PowerMeasurement::measure() {
  const double settleUs = timer_.warmUpTimeUs(std::vector<PlanMatmul>(kInARow, shape_));
  TimedPlan one = BRAID_TRY(ready(calibration::gemms(mesh(), shape_, 1, 1)));
  TimedPlan chain = BRAID_TRY(ready(calibration::gemms(mesh(), shape_, kInARow, 1)));
  PowerCost power;
  const double rested = BRAID_TRY(timeWithRests(one, kRestUs, 0));
  const double hot = hotUs_ = BRAID_TRY(timeWithRests(chain, 0, settleUs));
  power.boost = std::clamp(hot / kInARow / rested, 1.0, kMostBoost);
  if (power.boost < kLeastBoost)
    return PowerCost();
  const double restUs = kRestPart * hot;
  const double cooler = std::min(BRAID_TRY(timeWithRests(chain, restUs, settleUs)), hot);
  const double idle = (cooler + restUs - hot * hot / cooler) / restUs;
  power.idle = std::clamp(idle, 0.0, 1.0);
  const int64_t bytes = hiddenBytes();
  if (mesh().perHost == 1 || !options_.reachesPeers || bytes == 0)
    return power;
  TimedPlan beside =
      BRAID_TRY(ready(calibration::gemmsBesideBlocks(mesh(), shape_, kInARow, bytes, kBlocks)));
  const double slower = std::max(BRAID_TRY(timeWithRests(beside, 0, settleUs)), hot);
  const double copiesUs = kBlocks * static_cast<double>(bytes) / costs_.push.bytesPerUs;
  power.copy = std::clamp((slower - hot * hot / slower) / copiesUs, 0.0, 1.0);
  return power;
}

} // namespace

Status measurePower(CostModel &model, PlanTimer &timer, const CalibrationOptions &options) {
  if (!options.limitedByPower)
    return Status::ok();
  const OperationCosts *costs =
      model.find(options.launchModes.back(), options.transferModes.front());
  Result<PowerCost> power =
      PowerMeasurement(*options.limitedByPower, timer, options, *costs).measure();
  if (!power)
    return power.status().annotated("measuring what power limits");
  model.power = *power;
  return Status::ok();
}

} // namespace braid
