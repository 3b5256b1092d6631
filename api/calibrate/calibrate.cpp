//===- api/calibrate/calibrate.cpp - measures what a cost model holds -------------------------===//

#include "api/calibrate/calibrate.h"

#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>

namespace braid {
namespace {

/// How many operations of one kind follow one another.
constexpr int kChain = 8;

double positive(double us) { return std::max(us, kLeastUs); }

/// What a run takes besides its commands where ranks wait for one another.
double beginUs(const OperationCosts &costs) { return costs.runUs + costs.apartUs; }

class Calibration {
public:
  Calibration(PlanTimer &timer, const CalibrationOptions &options)
      : timer_(timer), options_(options) {}
  Result<CostModel> run();

private:
  /// A program to be timed, and a name for what that gives.
  struct Trial {
    std::string name, text;
    bool hasCopies = true;
    bool isBurst = false; ///< runs that follow one another are timed, too
  };
  /// In every launch mode, in the transfer mode that is being looked at.
  Status measure(const Trial &trial);
  Status measureBursts(const Trial &trial);
  Status measureAll();
  Result<std::vector<OperationCosts>> measureOperations();
  /// What a longer series takes more. If nothing, one of the two was disturbed.
  double growth(double us) const {
    wasDisturbed_ = wasDisturbed_ || us <= 0;
    return positive(us);
  }
  std::vector<Trial> trials() const;
  OperationCosts deduce(size_t mode) const;
  void deduceIssue(OperationCosts &costs, size_t mode) const;
  void deduceBursts(OperationCosts &costs, size_t mode) const;
  void deduceSignals(OperationCosts &costs, size_t mode) const;
  CopyCost copyLine(double smallUs, double growthUs) const;
  CopyCost deduceCopy(const OperationCosts &costs, const std::string &name, size_t mode) const;
  Result<NetworkCost> measureNetwork();
  calibration::Mesh mesh() const { return {timer_.ranks(), timer_.ranksPerHost()}; }
  bool usesPeers() const { return mesh().perHost > 1 && options_.reachesPeers; }
  double us(const std::string &name, size_t mode) const { return times_.at(name)[mode].us; }
  /// The host's time, where it issues command by command.
  double issue(const std::string &name, size_t mode) const {
    return options_.launchModes[mode] == LaunchMode::Eager ? times_.at(name)[mode].issueUs : 0;
  }

  PlanTimer &timer_;
  const CalibrationOptions &options_;
  TransferMode transferMode_;
  mutable bool wasDisturbed_ = false;
  std::map<std::string, std::vector<RunTime>> times_; ///< by name, in each launch mode
  std::map<std::string, std::vector<double>> bursts_; ///< likewise: of a run in a burst
};

Status Calibration::measure(const Trial &trial) {
  std::vector<Plan> plans = BRAID_TRY(calibration::plansOf(trial.text));
  if (!trial.hasCopies)
    calibration::dropCopies(plans);
  Result<std::vector<RunTime>> times =
      timer_.time(std::move(plans), options_.launchModes, options_.effort, transferMode_);
  if (!times)
    return times.status().annotated("calibrating by " + trial.name);
  std::vector<RunTime> &best = times_.try_emplace(trial.name, *times).first->second;
  for (size_t mode = 0; mode < best.size(); ++mode)
    best[mode] = {std::min(best[mode].us, (*times)[mode].us),
                  std::min(best[mode].issueUs, (*times)[mode].issueUs)};
  return trial.isBurst ? measureBursts(trial) : Status::ok();
}

Status Calibration::measureBursts(const Trial &trial) {
  std::vector<Plan> plans = BRAID_TRY(calibration::plansOf(trial.text));
  TimedPlan plan =
      BRAID_TRY(timer_.makeReady(std::move(plans), options_.launchModes.front(), transferMode_));
  for (size_t mode = 0; mode < options_.launchModes.size(); ++mode) {
    BRAID_TRY(timer_.issueAs(plan, options_.launchModes[mode]));
    const BurstEffort effort = {.runs = 4 * kChain, .budgetUs = options_.effort.budgetUs};
    const double us = BRAID_TRY(timer_.timeBursts(plan, this->us(trial.name, mode), effort));
    std::vector<double> &best = bursts_[trial.name];
    best.resize(options_.launchModes.size(), std::numeric_limits<double>::infinity());
    best[mode] = std::min(best[mode], us);
  }
  return Status::ok();
}

std::vector<Calibration::Trial> Calibration::trials() const {
  using namespace calibration;
  const Mesh ranks = mesh();
  const int64_t small = options_.smallBytes, large = options_.largeBytes;
  const PlanMatmul tiny{DType::BF16, 64, 64, 64, false, {}, {}, {}, {}};
  std::vector<Trial> all = {{"1 copy", localCopies(ranks, small, 1), true, true},
                            {"copies", localCopies(ranks, small, 1 + kChain)},
                            {"large copy", localCopies(ranks, large, 1)},
                            {"1 sum", sums(ranks, small, 1)},
                            {"sums", sums(ranks, small, 1 + kChain)},
                            {"large sum", sums(ranks, large, 1)},
                            {"events", eventChain(ranks, small, kChain)},
                            {"two streams", twoStreams(ranks, small), true, true},
                            {"GEMMs", gemms(ranks, tiny, kChain, 1)}};
  if (!usesPeers())
    return all;
  all.push_back({"1 turn", transferChain(ranks, Protocol::Get, 2, 1), false});
  all.push_back({"turns", transferChain(ranks, Protocol::Get, 2, kChain), false});
  all.push_back({"flood", transferFlood(ranks, 2, 2 * kChain), false});
  for (Protocol protocol : {Protocol::Get, Protocol::Put}) {
    const std::string kind = name(protocol).str();
    all.push_back({kind + " small", transferChain(ranks, protocol, small, kChain)});
    all.push_back({kind + " large", transferChain(ranks, protocol, large, 2)});
    all.push_back({kind + " all", fan(ranks, protocol, large)});
  }
  return all;
}

Status Calibration::measureAll() {
  for (const Trial &trial : trials())
    BRAID_TRY(measure(trial));
  return Status::ok();
}

void Calibration::deduceIssue(OperationCosts &costs, size_t mode) const {
  costs.issueCopyUs = issue("copies", mode) / (1 + kChain);
  costs.issueMatmulUs = issue("GEMMs", mode) / kChain;
  const double events = issue("events", mode) - 2 * kChain * costs.issueCopyUs;
  costs.issueEventUs =
      std::max(events / (4 * kChain), 0.0); // a record and a wait in each half turn
  if (usesPeers())
    costs.issueSignalUs =
        std::max((issue("turns", mode) - 2 * kChain * costs.issueEventUs) / (4 * kChain), 0.0);
}

/// What a run in a burst takes besides its copies, or besides what the host takes to issue it.
void Calibration::deduceBursts(OperationCosts &costs, size_t mode) const {
  auto besides = [&](const std::string &name, double workUs) {
    return std::max(bursts_.at(name)[mode] - std::max(workUs, issue(name, mode)), 0.0);
  };
  const double copyUs = us("1 copy", mode) - costs.runUs - costs.issueCopyUs;
  costs.gapUs = besides("1 copy", copyUs);
  costs.forkUs = std::max(besides("two streams", copyUs + costs.eventUs) - costs.gapUs, 0.0);
  if (options_.launchModes[mode] == LaunchMode::Graph)
    costs.launchUs = costs.forkUs; // taken as one node more; where the host issues, that is all
}

/// What one turn takes besides the turns of a chain is how far apart ranks begin. A turn follows on
/// an event, and has two hops: "you may read", "I have read".
void Calibration::deduceSignals(OperationCosts &costs, size_t mode) const {
  const double more = (us("turns", mode) - us("1 turn", mode)) / (kChain - 1);
  costs.apartUs = std::max(us("1 turn", mode) - costs.runUs - std::max(more, 0.0), 0.0);
  const double turn = (us("turns", mode) - beginUs(costs)) / kChain - costs.eventUs;
  const double hop = growth(turn / 2);
  const double held =
      positive((us("flood", mode) - beginUs(costs)) / (4 * kChain)); // a signal, an await
  costs.signalUs = costs.awaitUs = std::min(held / 2, hop / 2);
  costs.flightUs = hop - costs.signalUs - costs.awaitUs;
}

/// The line through a small copy's time and a large one's, which is longer by `growthUs`.
CopyCost Calibration::copyLine(double smallUs, double growthUs) const {
  const double bytes = static_cast<double>(options_.largeBytes - options_.smallBytes);
  CopyCost cost;
  cost.bytesPerUs = cost.sharedBytesPerUs = bytes / growth(growthUs);
  cost.fixedUs =
      std::max(smallUs - static_cast<double>(options_.smallBytes) / cost.bytesPerUs, 0.0);
  return cost;
}

/// From the copies in chains of turns, small and large.
CopyCost Calibration::deduceCopy(const OperationCosts &costs, const std::string &name,
                                 size_t mode) const {
  const double hops = 2 * (costs.signalUs + costs.flightUs + costs.awaitUs);
  const double turn = hops + costs.eventUs; // besides the copy
  const double small = positive((us(name + " small", mode) - beginUs(costs)) / kChain - turn);
  const double large = positive((us(name + " large", mode) - beginUs(costs)) / 2 - turn);
  CopyCost cost = copyLine(small, large - small);
  const double others = beginUs(costs) + 2 * costs.eventUs + hops + cost.fixedUs;
  const auto peers = static_cast<double>(mesh().perHost - 1);
  const double all = static_cast<double>(options_.largeBytes) * peers;
  cost.sharedBytesPerUs =
      std::min(all / positive(us(name + " all", mode) - others), peers * cost.bytesPerUs);
  return cost;
}

OperationCosts Calibration::deduce(size_t mode) const {
  OperationCosts costs;
  costs.launchMode = options_.launchModes[mode];
  costs.transferMode = transferMode_;
  deduceIssue(costs, mode);
  const double small = growth((us("copies", mode) - us("1 copy", mode)) / kChain);
  costs.local = copyLine(small, us("large copy", mode) - us("1 copy", mode));
  costs.runUs = std::max(us("1 copy", mode) - small - costs.issueCopyUs, 0.0);
  costs.eventUs = std::max((us("events", mode) - costs.runUs) / (2 * kChain) - small, 0.0);
  const double sum = growth((us("sums", mode) - us("1 sum", mode)) / kChain);
  costs.sum = copyLine(sum, us("large sum", mode) - us("1 sum", mode));
  deduceBursts(costs, mode);
  costs.pull = costs.push = costs.local;
  if (!usesPeers())
    return costs;
  deduceSignals(costs, mode);
  costs.pull = deduceCopy(costs, "get", mode);
  costs.push = deduceCopy(costs, "put", mode);
  return costs;
}

/// All ranks of a host send at once. A turn follows on an event.
Result<NetworkCost> Calibration::measureNetwork() {
  const int64_t small = options_.smallBytes, large = options_.largeBytes;
  transferMode_ = options_.transferModes.front();
  BRAID_TRY(measure({"network small", calibration::networkChain(mesh(), small, kChain)}));
  BRAID_TRY(measure({"network large", calibration::networkChain(mesh(), large, 2)}));
  const OperationCosts costs = deduce(0);
  const double smallUs =
      positive((us("network small", 0) - beginUs(costs)) / kChain - costs.eventUs);
  const double largeUs = positive((us("network large", 0) - beginUs(costs)) / 2 - costs.eventUs);
  NetworkCost cost;
  cost.bytesPerUs =
      static_cast<double>((large - small) * mesh().perHost) / positive(largeUs - smallUs);
  cost.latencyUs =
      std::max(smallUs - static_cast<double>(small * mesh().perHost) / cost.bytesPerUs, kLeastUs);
  return cost;
}

/// In every launch mode. Measures again what was disturbed, and keeps the shortest times; after the
/// last try they count in any case. All ranks see the same times, and so agree.
Result<std::vector<OperationCosts>> Calibration::measureOperations() {
  constexpr int kTries = 8;
  std::vector<OperationCosts> operations;
  times_.clear();
  bursts_.clear();
  for (int i = 0; i < kTries; ++i) {
    BRAID_TRY(measureAll());
    wasDisturbed_ = false;
    operations.clear();
    for (size_t mode = 0; mode < options_.launchModes.size(); ++mode)
      operations.push_back(deduce(mode));
    if (!wasDisturbed_)
      break;
  }
  return operations;
}

Result<CostModel> Calibration::run() {
  CostModel model;
  model.machine = timer_.device().description();
  model.ranks = timer_.ranks();
  for (TransferMode transferMode : options_.transferModes) {
    transferMode_ = transferMode;
    Result<std::vector<OperationCosts>> operations = measureOperations();
    if (!operations)
      return operations.status().annotated(str(transferMode));
    llvm::append_range(model.operations, *operations);
  }
  if (mesh().perHost < mesh().ranks) {
    Result<NetworkCost> network = measureNetwork();
    if (!network)
      return network.status().annotated("network");
    model.network = *network;
  }
  return model;
}

} // namespace

Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options) {
  return Calibration(timer, options).run();
}

} // namespace braid
