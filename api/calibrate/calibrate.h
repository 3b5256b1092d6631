//===- api/calibrate/calibrate.h - measures what a cost model holds ---------------------------===//
//
// Each number comes from a tiny program, run by the ordinary executor on the ranks of the job: a
// chain of one kind of operation, long enough to tell its cost from that of a run.
//
//   run, local copy   1 and 9 small sums; a large one
//   gap               runs of 1 small sum that follow one another
//   signal            turns, in which every rank signals its neighbour and waits for its own:
//                     transfers without the copies of their Plan
//   pull, push        the same turns with a copy in each, small and large
//   network           the same between hosts
//   GEMM              a few in a row, and the same ones on two streams, for their utilisation
//   message           a few of one kind and size in a row
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/timing/plan_timer.h"
#include "runtime/progress.h"

#include <map>

namespace braid {

/// The least that a clock can tell from nothing.
constexpr double kLeastUs = 0.01;

/// The ways to run that are measured or tried.
struct RunModes {
  /// At least one; the backend has all of them. The last one is used for GEMMs.
  std::vector<LaunchMode> launchModes{LaunchMode::Eager};
  /// The device offers them. The first one is used for GEMMs and messages.
  std::vector<TransferMode> transferModes = {};
  /// At least one. The first is that of candidates that name none. Without peers' memory, signals
  /// and copies to and from peers cost nothing.
  std::vector<Transport> transports{Transport::PeerMemory};
};

struct CalibrationOptions : RunModes {
  ProgressFn progress = {}; ///< hears of it on this rank
};

/// A model of everything but GEMMs and messages. Collective; blocks for a second or two; the same
/// model on all ranks.
Result<CostModel> calibrate(PlanTimer &timer, const CalibrationOptions &options);

/// Measures those of `shapes` that `model` needs to know what all of them cost: few row counts,
/// others lie between them. True if any had to be measured. Collective, the same on all ranks.
Result<bool> measureGemms(CostModel &model, llvm::ArrayRef<PlanMatmul> shapes, PlanTimer &timer,
                          const CalibrationOptions &options);

/// Lets all ranks send messages, if `transports` has more than messages. Erases messages from it if
/// some rank cannot send any. If that rank should be able to, rank 0 passes the reason to `warn`
/// after `consequence`; `warn` may be null. Collective, the same on all ranks.
Status openMessages(PlanTimer &timer, std::vector<Transport> &transports,
                    const std::function<void(const std::string &)> &warn,
                    const std::string &consequence);

/// The most bytes of each kind of message; no kind: groups.
using MessageSizes = std::map<std::optional<CollectiveKind>, int64_t>;
/// Raises the sizes to those of the Plan's messages.
void addMessageSizes(const Plan &plan, MessageSizes &sizes);

/// Measures messages of these kinds, as far as `model` lacks them: from 4 KiB to the given size, at
/// most 1 GiB, each four times the one before. True if any had to be measured. Collective, the same
/// on all ranks.
Result<bool> measureMessages(CostModel &model, const MessageSizes &sizes, PlanTimer &timer,
                             const CalibrationOptions &options);

} // namespace braid
