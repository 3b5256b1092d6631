//===- api/calibrate/calibrate.h - measures the costs of a cost model -------------------------===//
//
// Each cost is measured with a tiny program that the ordinary executor runs on the job's ranks: a
// chain of one kind of operation, long enough to separate its cost from the fixed cost of a run.
//
//   run, local copy   1 and 9 small sums; 1 large sum
//   signal            rounds in which every rank signals one neighbour and waits for the other
//                     neighbour: transfers whose copies are removed from the Plan
//   pull, push        the same rounds with a small or large copy in each
//   message           the same rounds with a small or large message in each
//   GEMM              a few back-to-back GEMMs
//
// Messages between hosts are not measured; CostModel's default costs are used.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"
#include "runtime/progress.h"

namespace braid {

/// The smallest time in microseconds that a clock can distinguish from zero.
constexpr double kLeastUs = 0.01;

/// The launch modes, transfer modes and transports to measure or try.
struct RunModes {
  /// At least one; the backend must support all of them. The last one is used for GEMMs.
  std::vector<LaunchMode> launchModes{LaunchMode::Eager};
  /// The device must offer all of them. The first one is used for GEMMs.
  std::vector<TransferMode> transferModes = {};
  /// At least one. The first is the default for candidates that set none. Without PeerMemory,
  /// signals and copies to and from peers are assumed to be free.
  std::vector<Transport> transports{Transport::PeerMemory};
};

struct CalibrationOptions : RunModes {
  ProgressFn progress = {};                          ///< receives progress on this rank
  std::function<void(const std::string &line)> warn; ///< receives warnings; may be null
};

/// Measures all costs except those of GEMMs. Includes messages if `options.transports` contains
/// them, in which case they must be open. Collective; blocks for a second or two. Returns the same
/// model on all ranks.
Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options);

/// Returns a subset of `shapes` from which a model can interpolate the others: a few row counts for
/// each combination of columns and depth.
std::vector<PlanMatmul> shapesToMeasure(llvm::ArrayRef<PlanMatmul> shapes);
/// Measures the `shapes` that are not in `model`. Returns true if there were any. Collective; the
/// arguments must be the same on all ranks.
Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options);

/// Measures all costs in every transfer mode of the device, and `gemms`. Warns and skips messages
/// if a rank cannot send them. Collective; blocks for minutes. All ranks return the same model.
Result<CostModel> measureMachine(PlanTimer &timer, CalibrationOptions options,
                                 llvm::ArrayRef<PlanMatmul> gemms);

} // namespace braid
