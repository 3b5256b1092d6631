//===- api/calibrate/calibrate.h - measures a machine's costs for a cost model ----------------===//
//
// To measure a cost, the ordinary executor runs a tiny program on the job's ranks: a chain of one
// kind of operation, long enough to separate the operation's cost from the fixed cost of a run.
//
//   run, local copy   1 and 9 small sums; 1 large sum
//   signal            rounds in which every rank signals one neighbor and waits for the other
//                     neighbor: transfers whose copies are removed from the Plan
//   pull, push        the same rounds with a small or large copy in each
//   message           the same rounds with a small or large message in each
//   GEMM              a few back-to-back GEMMs
//
// Messages between hosts are not measured; they have CostModel's default costs.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"
#include "runtime/progress.h"

namespace braid {

/// The minimum for costs that must be greater than zero, in microseconds. Replaces shorter measured
/// times.
constexpr double kLeastUs = 0.01;

/// The launch modes, transfer modes and transports to measure or try.
struct RunModes {
  /// Must not be empty; the backend must support all modes. GEMMs are timed in the last mode.
  std::vector<LaunchMode> launchModes{LaunchMode::Eager};
  /// The device must support all modes. GEMMs are timed in the first mode.
  std::vector<TransferMode> transferModes = {};
  /// Must not be empty. Candidates that set no transport use the first one. Without PeerMemory,
  /// signals and copies between peers are assumed to be free.
  std::vector<Transport> transports{Transport::PeerMemory};
};

struct CalibrationOptions : RunModes {
  ProgressFn progress = {};                          ///< receives progress on this rank
  std::function<void(const std::string &line)> warn; ///< receives warnings; may be null
};

/// Measures all costs except those of GEMMs. Also measures messages if `options.transports`
/// contains Messages; the message transport must then be open. Collective; blocks for a second or
/// two. Returns the same model on all ranks.
Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options);

/// Returns a subset of `shapes` from which a model can interpolate the others: a few row counts for
/// each combination of columns and depth.
std::vector<PlanMatmul> shapesToMeasure(llvm::ArrayRef<PlanMatmul> shapes);
/// Measures the `shapes` that `model` lacks, and adds their costs to `model`. Returns true if any
/// costs were missing. Collective; the arguments must be the same on all ranks.
Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options);

/// Measures `gemms`, and all other costs in every transfer mode of the device. Issues a warning and
/// skips messages if a rank cannot send messages. Collective; blocks for minutes. Returns the same
/// model on all ranks.
Result<CostModel> measureMachine(PlanTimer &timer, CalibrationOptions options,
                                 llvm::ArrayRef<PlanMatmul> gemms);

} // namespace braid
