//===- runtime/simulate/simulated_job.h - the ranks and streams that a simulation follows -----===//
#pragma once

#include "runtime/simulate/cost_model.h"
#include "runtime/simulate/kernels.h"

#include <limits>

namespace braid::simulator {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A stream of a rank.
struct Lane {
  /// The state of its next command: it waits for that.
  enum class Phase : uint8_t { Issue, Meeting, Start, End };

  uint32_t rank = 0;
  std::vector<uint32_t> commands; ///< in order
  size_t next = 0;
  Phase phase = Phase::Issue;
  bool isAsleep = false; ///< until its timer
  uint32_t flows = 0;    ///< in progress, of its command
  bool isDone() const { return next == commands.size(); }
  uint32_t command() const { return commands[next]; }
};

/// The objects to which the commands of one rank refer.
struct RankState {
  const Plan *plan = nullptr;
  uint32_t firstLane = 0;
  Kernels kernels;
  std::vector<double> issuedUs;   ///< by command
  std::vector<uint32_t> record;   ///< by command: the record that a wait_event waits for, or kNone
  std::vector<uint32_t> meeting;  ///< by command: Job::meetings that it waits for, or kNone
  std::vector<GemmCost> gemms;    ///< by GEMM of the Plan
  std::vector<uint32_t> peerFlag; ///< by endpoint: the flag that its signal sets
  std::vector<double> flagSetUs;  ///< by flag; kNever: not signalled yet
};

/// A group with those that it exchanges messages with, or a collective: none goes on before all
/// have come.
struct Meeting {
  size_t missing = 0;
  std::vector<uint32_t> lanes; ///< that have come
};

struct Job {
  std::vector<RankState> ranks;
  std::vector<Lane> lanes; ///< rank by rank
  std::vector<Meeting> meetings;
};

/// All ranks before the first moment. `plans`, which outlive the result, are those of all ranks, in
/// rank order, or of the first ones, which stand for all (alike_ranks.h): BadInput if not.
/// Unsupported if `model` lacks a GEMM.
Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model,
                    const OperationCosts &costs);

} // namespace braid::simulator
