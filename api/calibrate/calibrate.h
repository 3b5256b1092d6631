//===- api/calibrate/calibrate.h - measures the costs of a cost model -------------------------===//
//
// Each cost is measured with a tiny program that the ordinary executor runs on the ranks of the
// job: a chain of one kind of operation, long enough to separate its cost from that of a run.
//
//   run, local copy   1 and 9 small sums; a large one
//   signal            turns in which every rank signals its neighbour and waits for the other
//                     neighbour: transfers without the copies of their Plan
//   pull, push        the same turns with a copy in each, small and large
//   message           the same turns by messages, small and large
//   GEMM              a few in sequence
//
// The costs of messages between hosts are not measured; those of CostModel are used.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"
#include "runtime/progress.h"

namespace braid {

/// The smallest time that a clock can distinguish from zero.
constexpr double kLeastUs = 0.01;

/// The launch modes, transfer modes and transports that are measured or tried.
struct RunModes {
  /// At least one; the backend must support all of them. The last one is used for GEMMs.
  std::vector<LaunchMode> launchModes{LaunchMode::Eager};
  /// The device must offer them. The first one is used for GEMMs.
  std::vector<TransferMode> transferModes = {};
  /// At least one. The first is the default of candidates that set none. Without peers' memory,
  /// signals and copies to and from peers are treated as free.
  std::vector<Transport> transports{Transport::PeerMemory};
};

struct CalibrationOptions : RunModes {
  ProgressFn progress = {};                          ///< receives progress on this rank
  std::function<void(const std::string &line)> warn; ///< for warnings; may be null
};

/// Measures a model of everything except GEMMs. Messages are measured if `options.transports`
/// contains them; they must then be open. Collective; blocks for a second or two. Returns the same
/// model on all ranks.
Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options);

/// Returns the `shapes` from which a model can interpolate all of them: few row counts for each
/// number of columns and depth.
std::vector<PlanMatmul> shapesToMeasure(llvm::ArrayRef<PlanMatmul> shapes);
/// Measures the `shapes` that `model` lacks. Returns true if it measured any. Collective; equal on
/// all ranks.
Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options);

/// Measures everything in every transfer mode of the device, and `gemms`. If a rank cannot send
/// messages, they are left out with a warning. Collective; blocks for minutes; equal on all ranks.
Result<CostModel> measureMachine(PlanTimer &timer, CalibrationOptions options,
                                 llvm::ArrayRef<PlanMatmul> gemms);

} // namespace braid
