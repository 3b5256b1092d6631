//===- api/calibrate/calibrate.cpp - measures a machine's costs for a cost model --------------===//

#include "api/calibrate/calibrate.h"

#include "api/calibrate/calibration_programs.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace braid {
namespace {

/// The number of operations in a chain.
constexpr int kChain = 8;

/// Measures the costs of operations in one transfer mode.
class Calibration {
public:
  Calibration(PlanTimer &timer, const CalibrationOptions &options, TransferMode mode)
      : timer_(timer), options_(options), transferMode_(mode), mesh_(timer),
        large_(timer.device().sharesHostMemory() ? int64_t(1) << 20 : int64_t(32) << 20),
        usesPeers_(uses(Transport::PeerMemory)), usesMessages_(uses(Transport::Messages)) {}

  /// Measures in every launch mode. Repeats disturbed measurements a few times, and uses the
  /// shortest times. All ranks use the same times, and therefore make the same decisions.
  Result<std::vector<OperationCosts>> measureOperations() {
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

private:
  bool uses(Transport transport) const {
    return mesh_.perHost > 1 && llvm::is_contained(options_.transports, transport);
  }

  // -- Measurements. --

  Status measureAll() {
    using namespace calibration;
    BRAID_TRY(measure("1 sum", sums(mesh_, small_, 1)));
    BRAID_TRY(measure("sums", sums(mesh_, small_, 1 + kChain)));
    BRAID_TRY(measure("large sum", sums(mesh_, large_, 1)));
    if (usesMessages_)
      BRAID_TRY(measureTurns("message", Protocol::Get, Transport::Messages));
    if (!usesPeers_)
      return Status::ok();
    for (const auto &[name, turns] : {std::pair("1 turn", 1), std::pair("turns", kChain)})
      BRAID_TRY(measure(name, transferChain(mesh_, Protocol::Get, 2, turns), Transport::PeerMemory,
                        /*hasCopies=*/false));
    BRAID_TRY(measureTurns("get", Protocol::Get, Transport::PeerMemory));
    return measureTurns("put", Protocol::Put, Transport::PeerMemory);
  }

  Status measureTurns(const std::string &kind, Protocol protocol, Transport transport) {
    using calibration::transferChain;
    BRAID_TRY(measure(kind + " small", transferChain(mesh_, protocol, small_, kChain), transport));
    return measure(kind + " large", transferChain(mesh_, protocol, large_, 2), transport);
  }

  Status measure(const std::string &name, const std::string &text,
                 Transport transport = Transport::PeerMemory, bool hasCopies = true) {
    const std::vector<RunTime> times = BRAID_TRY(calibration::timeProgram(
        timer_, "calibrating with program '" + name + "'", text,
        {.launchModes = options_.launchModes,
         .transferMode = transport == Transport::Messages ? TransferMode() : transferMode_,
         .transport = transport,
         .hasCopies = hasCopies}));
    std::vector<RunTime> &best = times_.try_emplace(name, times).first->second;
    for (size_t mode = 0; mode < best.size(); ++mode)
      best[mode] = {std::min(best[mode].us, times[mode].us),
                    std::min(best[mode].issueUs, times[mode].issueUs)};
    return Status::ok();
  }

  // -- Costs. --

  OperationCosts deduce(size_t mode) {
    OperationCosts costs;
    costs.launchMode = options_.launchModes[mode];
    costs.transferMode = transferMode_;
    if (costs.launchMode == LaunchMode::Eager)
      costs.issueUs = times_["sums"][mode].issueUs / (1 + kChain);
    const double small = growth((us("sums", mode) - us("1 sum", mode)) / kChain);
    costs.local = copyLine(small, us("large sum", mode) - us("1 sum", mode));
    costs.runUs = std::max(us("1 sum", mode) - small - costs.issueUs, 0.0);
    costs.pull = costs.push = costs.local;
    if (usesPeers_)
      deducePeers(costs, mode);
    costs.message = usesMessages_ ? turnLine("message", mode, costs.runUs, 0) : costs.pull;
    return costs;
  }

  /// Deduces the transfer costs. A round has two signals: "ready to read" and "done reading".
  /// Because the ranks wait for each other, a run effectively starts when the last rank starts.
  void deducePeers(OperationCosts &costs, size_t mode) {
    const double turn = growth((us("turns", mode) - us("1 turn", mode)) / (kChain - 1));
    costs.signalUs = turn / 2;
    costs.runUs = std::max(us("1 turn", mode) - turn, costs.runUs);
    costs.pull = turnLine("get", mode, costs.runUs, turn);
    costs.push = turnLine("put", mode, costs.runUs, turn);
  }

  /// Returns the cost of the copy or message in a round whose signals take `signalsUs`.
  CopyCost turnLine(const std::string &kind, size_t mode, double runUs, double signalsUs) {
    const double small = positive((us(kind + " small", mode) - runUs) / kChain - signalsUs);
    const double large = positive((us(kind + " large", mode) - runUs) / 2 - signalsUs);
    return copyLine(small, large - small);
  }

  /// Fits a line to the times of a small copy and a large copy, which takes `growthUs` longer.
  CopyCost copyLine(double smallUs, double growthUs) {
    const auto small = static_cast<double>(small_), large = static_cast<double>(large_);
    const double bytesPerUs = (large - small) / growth(growthUs);
    return {std::max(smallUs - small / bytesPerUs, 0.0), bytesPerUs};
  }

  /// Returns `us`, the extra time of a longer chain, but at least kLeastUs. If `us` <= 0, records
  /// that the measurement was disturbed.
  double growth(double us) {
    wasDisturbed_ |= us <= 0;
    return positive(us);
  }

  static double positive(double us) { return std::max(us, kLeastUs); }
  double us(const std::string &name, size_t mode) const { return times_.at(name)[mode].us; }

  PlanTimer &timer_;
  const CalibrationOptions &options_;
  const TransferMode transferMode_;
  const calibration::Mesh mesh_;
  const int64_t small_ = int64_t(1) << 16, large_; ///< bytes
  const bool usesPeers_, usesMessages_;
  bool wasDisturbed_ = false;
  std::map<std::string, std::vector<RunTime>> times_; ///< by name; one entry per launch mode
};

/// Returns all transfer modes that `peers` supports, the default first.
std::vector<TransferMode> allTransferModes(const PeerMemory &peers) {
  std::vector<TransferMode> all;
  for (CopyBy copies : {CopyBy::Default, CopyBy::Engine, CopyBy::Kernel})
    for (SignalBy signals : {SignalBy::Default, SignalBy::Memory, SignalBy::Kernel})
      if (const TransferMode mode{copies, signals}; peers.offers(mode))
        all.push_back(mode);
  return all;
}

} // namespace

Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options) {
  CostModel model;
  model.machine = timer.device().description();
  model.ranks = timer.ranks();
  ProgressStep progress(options.progress, "measuring operations", "transfer modes",
                        options.transferModes.size());
  for (TransferMode mode : options.transferModes) {
    Calibration calibration(timer, options, mode);
    llvm::append_range(model.operations, BRAID_TRY(calibration.measureOperations()));
    progress.advance();
  }
  return model;
}

/// Opens the message transport on all ranks if `options` contains several transports. If a rank
/// cannot send messages, removes Messages from `options`, and rank 0 issues a warning unless its
/// device does not support messages. Collective; the resulting `options` are the same on all ranks.
static Status openMessages(PlanTimer &timer, CalibrationOptions &options) {
  if (options.transports.size() == 1)
    return Status::ok();
  Messages *messages = timer.device().messages();
  const Status mine = messages ? messages->openTeams({}, timer.control())
                               : unsupported("this device cannot send messages");
  const std::vector<std::string> all =
      BRAID_TRY(timer.control().allGather(mine.isOk() ? "" : mine.message()));
  const auto failure = llvm::find_if(all, [](const std::string &each) { return !each.empty(); });
  if (failure == all.end())
    return Status::ok();
  const bool isMissing = mine.code() == StatusCode::Unsupported; // not a failure, so no warning
  if (timer.rank() == 0 && options.warn && !isMissing)
    options.warn("messages are not measured: " + *failure);
  llvm::erase_value(options.transports, Transport::Messages);
  return Status::ok();
}

/// All ranks measure, but they all use rank 0's model, which consists of maxima over the ranks.
Result<CostModel> measureMachine(PlanTimer &timer, CalibrationOptions options,
                                 llvm::ArrayRef<PlanMatmul> gemms) {
  options.transferModes = {TransferMode()};
  if (llvm::is_contained(options.transports, Transport::PeerMemory))
    options.transferModes = allTransferModes(*timer.device().peerMemory());
  BRAID_TRY(openMessages(timer, options));
  CostModel model = BRAID_TRY(calibrate(timer, options));
  BRAID_TRY(measureGemms(model, gemms, timer, options));
  return CostModel::decode(BRAID_TRY(timer.fromRankZero(model.encode())));
}

} // namespace braid
