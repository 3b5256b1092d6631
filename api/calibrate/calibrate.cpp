//===- api/calibrate/calibrate.cpp - measures the costs of a cost model -----------------------===//

#include "api/calibrate/calibrate.h"

#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>

namespace braid {
namespace {

/// The number of operations in a chain.
constexpr int kChain = 8;

double positive(double us) { return std::max(us, kLeastUs); }

/// Measures the operations of one transfer mode.
class Calibration {
public:
  Calibration(PlanTimer &timer, const CalibrationOptions &options, TransferMode mode)
      : timer_(timer), options_(options), transferMode_(mode), mesh_(timer),
        large_(timer.device().sharesHostMemory() ? int64_t(1) << 20 : int64_t(32) << 20),
        usesPeers_(mesh_.perHost > 1 &&
                   llvm::is_contained(options.transports, Transport::PeerMemory)) {}

  /// Measures in every launch mode. Repeats disturbed measurements and keeps the shortest times;
  /// after the last attempt it accepts them. All ranks get the same times, and so agree.
  Result<std::vector<OperationCosts>> measureOperations();
  Result<NetworkCost> measureNetwork();

private:
  Status measure(const std::string &name, const std::string &text, bool hasCopies = true);
  Status measureBurst(const std::string &text);
  Status measureAll();
  OperationCosts deduce(size_t mode);
  void deducePeers(OperationCosts &costs, size_t mode);
  CopyCost copyLine(double smallUs, double growthUs);
  double us(const std::string &name, size_t mode) const { return times_.at(name)[mode].us; }
  /// Returns the additional time of a longer chain. If it is 0, one of the two was disturbed.
  double growth(double us) {
    wasDisturbed_ |= us <= 0;
    return positive(us);
  }

  PlanTimer &timer_;
  const CalibrationOptions &options_;
  const TransferMode transferMode_;
  const calibration::Mesh mesh_;
  const int64_t small_ = int64_t(1) << 16, large_; ///< bytes
  const bool usesPeers_;
  bool wasDisturbed_ = false;
  std::map<std::string, std::vector<RunTime>> times_; ///< by name; one for each launch mode
};

Status Calibration::measure(const std::string &name, const std::string &text, bool hasCopies) {
  const std::vector<RunTime> times =
      BRAID_TRY(calibration::timeProgram(timer_, "calibrating by " + name, text,
                                         {.launchModes = options_.launchModes,
                                          .transferMode = transferMode_,
                                          .hasCopies = hasCopies}));
  std::vector<RunTime> &best = times_.try_emplace(name, times).first->second;
  for (size_t mode = 0; mode < best.size(); ++mode)
    best[mode] = {std::min(best[mode].us, times[mode].us),
                  std::min(best[mode].issueUs, times[mode].issueUs)};
  return Status::ok();
}

Status Calibration::measureBurst(const std::string &text) {
  std::vector<Plan> plans = BRAID_TRY(calibration::plansOf(text));
  TimedPlan plan =
      BRAID_TRY(timer_.makeReady(std::move(plans), options_.launchModes.front(), transferMode_));
  std::vector<RunTime> &best = times_["burst"];
  best.resize(options_.launchModes.size(), {std::numeric_limits<double>::infinity(), 0});
  for (size_t mode = 0; mode < best.size(); ++mode) {
    BRAID_TRY(timer_.issueAs(plan, options_.launchModes[mode]));
    const double burst =
        BRAID_TRY(timer_.timeBursts(plan, us("1 sum", mode), {.runs = 4 * kChain}));
    best[mode].us = std::min(best[mode].us, burst);
  }
  return Status::ok();
}

Status Calibration::measureAll() {
  using namespace calibration;
  BRAID_TRY(measure("1 sum", sums(mesh_, small_, 1)));
  BRAID_TRY(measure("sums", sums(mesh_, small_, 1 + kChain)));
  BRAID_TRY(measure("large sum", sums(mesh_, large_, 1)));
  BRAID_TRY(measureBurst(sums(mesh_, small_, 1)));
  if (!usesPeers_)
    return Status::ok();
  BRAID_TRY(measure("1 turn", transferChain(mesh_, Protocol::Get, 2, 1), false));
  BRAID_TRY(measure("turns", transferChain(mesh_, Protocol::Get, 2, kChain), false));
  for (Protocol protocol : {Protocol::Get, Protocol::Put}) {
    const std::string kind = name(protocol).str();
    BRAID_TRY(measure(kind + " small", transferChain(mesh_, protocol, small_, kChain)));
    BRAID_TRY(measure(kind + " large", transferChain(mesh_, protocol, large_, 2)));
  }
  return Status::ok();
}

/// Returns the line through the times of a small copy and a large one, `growthUs` longer.
CopyCost Calibration::copyLine(double smallUs, double growthUs) {
  const auto small = static_cast<double>(small_), large = static_cast<double>(large_);
  const double bytesPerUs = (large - small) / growth(growthUs);
  return {std::max(smallUs - small / bytesPerUs, 0.0), bytesPerUs};
}

OperationCosts Calibration::deduce(size_t mode) {
  OperationCosts costs;
  costs.launchMode = options_.launchModes[mode];
  costs.transferMode = transferMode_;
  if (costs.launchMode == LaunchMode::Eager)
    costs.issueUs = times_["sums"][mode].issueUs / (1 + kChain);
  const double small = growth((us("sums", mode) - us("1 sum", mode)) / kChain);
  costs.local = copyLine(small, us("large sum", mode) - us("1 sum", mode));
  costs.runUs = std::max(us("1 sum", mode) - small - costs.issueUs, 0.0);
  costs.gapUs = std::max(us("burst", mode) - std::max(small, costs.issueUs), 0.0);
  costs.pull = costs.push = costs.local;
  if (usesPeers_)
    deducePeers(costs, mode);
  return costs;
}

/// Deduces the costs of transfers. A turn has two signals: "you may read" and "I have read". Ranks
/// that wait for each other start when the last one starts.
void Calibration::deducePeers(OperationCosts &costs, size_t mode) {
  const double turn = growth((us("turns", mode) - us("1 turn", mode)) / (kChain - 1));
  costs.signalUs = turn / 2;
  costs.runUs = std::max(us("1 turn", mode) - turn, costs.runUs);
  const auto copyBy = [&](Protocol protocol) {
    const std::string kind = name(protocol).str();
    const double small = positive((us(kind + " small", mode) - costs.runUs) / kChain - turn);
    const double large = positive((us(kind + " large", mode) - costs.runUs) / 2 - turn);
    return copyLine(small, large - small);
  };
  costs.pull = copyBy(Protocol::Get);
  costs.push = copyBy(Protocol::Put);
}

Result<std::vector<OperationCosts>> Calibration::measureOperations() {
  constexpr int kTries = 8;
  std::vector<OperationCosts> operations;
  for (int i = 0; i < kTries && (i == 0 || wasDisturbed_); ++i) {
    Status status = measureAll();
    if (!status.isOk())
      return status.annotated(str(transferMode_));
    wasDisturbed_ = false;
    operations.clear();
    for (size_t mode = 0; mode < options_.launchModes.size(); ++mode)
      operations.push_back(deduce(mode));
  }
  return operations;
}

/// Must be called after measureOperations(). All ranks of a host send at once.
Result<NetworkCost> Calibration::measureNetwork() {
  BRAID_TRY(measure("network small", calibration::networkChain(mesh_, small_, kChain)));
  BRAID_TRY(measure("network large", calibration::networkChain(mesh_, large_, 2)));
  const double begin = deduce(0).runUs;
  const double smallUs = positive((us("network small", 0) - begin) / kChain);
  const double largeUs = positive((us("network large", 0) - begin) / 2);
  const auto ranks = static_cast<double>(mesh_.perHost);
  NetworkCost cost;
  cost.bytesPerUs = double(large_ - small_) * ranks / positive(largeUs - smallUs);
  cost.latencyUs = std::max(smallUs - double(small_) * ranks / cost.bytesPerUs, kLeastUs);
  return cost;
}

} // namespace

Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options) {
  CostModel model;
  model.machine = timer.device().description();
  model.ranks = timer.ranks();
  ProgressStep progress(options.progress, "operations", "transfer modes",
                        options.transferModes.size());
  for (TransferMode mode : options.transferModes) {
    Calibration calibration(timer, options, mode);
    const std::vector<OperationCosts> operations = BRAID_TRY(calibration.measureOperations());
    const bool isFirst = model.operations.empty();
    llvm::append_range(model.operations, operations);
    if (isFirst && timer.ranksPerHost() < timer.ranks())
      model.network = BRAID_TRY(calibration.measureNetwork());
    progress.advance();
  }
  return model;
}

} // namespace braid
