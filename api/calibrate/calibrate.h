//===- api/calibrate/calibrate.h - measures what a cost model holds ---------------------------===//
//
// Each number comes from a tiny program, run by the ordinary executor on the ranks of the job: a
// chain of one kind of operation, long enough to tell its cost from that of a run.
//
//   run, local copy   1 and 9 small copies; a large one
//   sum, launch       the same with sums; a launch takes as long as a small sum in a graph
//   gap               runs of 1 small copy that follow one another
//   signal            every rank signals its neighbour and waits for its own, in turn: transfers
//                     whose copies were taken out of the Plan
//   apart             what one of these turns takes longer than one among many
//   pull, push        the same turns with a copy in each, small and large
//   network           the same between hosts
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"

#include <map>

namespace braid {

/// A clock cannot tell less from nothing.
constexpr double kLeastUs = 0.01;

struct CalibrationOptions {
  std::vector<LaunchMode> launchModes{LaunchMode::Eager}; ///< that the backend has
  /// That the device offers; the first one for GEMMs, too.
  std::vector<TransferMode> transferModes{TransferMode()};
  bool reachesPeers = true; ///< else copies from and to peers, and signals, cost nothing
  int64_t smallBytes = int64_t(1) << 16, largeBytes = int64_t(32) << 20;
  TimingEffort effort = {};
};

/// A model of everything but GEMMs and messages. Collective; blocks for a second or two; the same
/// model on all ranks.
Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options);

/// Measures those of `shapes` that `model` needs to know what all of them cost: few row counts,
/// others lie between them. True if any had to be measured. Collective, the same on all ranks.
Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options);

/// The most bytes of each kind of message; no kind: groups.
using MessageSizes = std::map<std::optional<CollectiveKind>, int64_t>;
MessageSizes messageSizesOf(const Plan &plan);

/// Measures messages of these kinds, as far as `model` lacks them: from 4 KiB to the size that is
/// given, at most 1 GiB, each four times the one before. True if any had to be measured.
/// Collective, the same on all ranks.
Result<bool> measureMessages(CostModel &model, const MessageSizes &sizes, PlanTimer &timer,
                             const CalibrationOptions &options);

} // namespace braid
