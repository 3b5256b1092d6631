//===- api/calibrate/calibrate.h - measures what a cost model holds ---------------------------===//
//
// Each number comes from a tiny program of its own, run by the ordinary executor on the ranks of
// the job: a chain of one kind of operation, long enough to tell its cost from that of a run.
//
//   run, local copy   1 and 9 small copies on one stream; a large one
//   sum               the same with sums
//   gap, fork         runs of 1 small copy that follow one another; of two on two streams
//   event             two streams that wait for each other in turn
//   signal, one way   every rank signals its neighbour and waits for its own, in turn, on two
//                     streams: transfers whose copies were taken out of the Plan
//   apart             what one of these turns takes longer than one among many
//   signal + await    many at once, so that nothing flies while the streams wait
//   copy              the same turns with a copy in each, small and large; pull and push
//   shared link       one large copy from, or to, every peer at once
//
// What power does to GEMMs is in measure_power.h. What is sent is in measure_messages.h: a chain of
// groups, or of collectives of a kind.
// GEMMs are in measure_gemms.h: a chain on one stream; the same issued round-robin to two streams
// gives the utilisation, or the contention.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"

namespace braid {

/// Shorter than this is what a clock cannot tell from nothing.
constexpr double kLeastUs = 0.01;

struct CalibrationOptions {
  std::vector<LaunchMode> launchModes{LaunchMode::Eager}; ///< that the backend has
  /// That the device offers; the first one for GEMMs, too.
  std::vector<TransferMode> transferModes{TransferMode()};
  /// Whether data travel through peers' memory; else its copies and signals cost nothing.
  bool reachesPeers = true;
  int64_t smallBytes = int64_t(1) << 16, largeBytes = int64_t(32) << 20;
  TimingEffort effort = {};
  /// A GEMM that takes all the power that the device may have, if there is one (measure_power.h).
  std::optional<PlanMatmul> limitedByPower = {};
};

/// A model of everything but GEMMs. Collective; blocks for a second or two; the same model on
/// all ranks.
Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options);

} // namespace braid
