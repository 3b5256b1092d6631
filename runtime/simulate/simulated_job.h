//===- runtime/simulate/simulated_job.h - the ranks and streams that a simulation follows -----===//
#pragma once

#include "runtime/simulate/cost_model.h"

#include <limits>

namespace braid::simulator {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A stream of a rank in a run.
struct Lane {
  uint32_t rank = 0;              ///< Job::ranks
  std::vector<uint32_t> commands; ///< in order
  size_t next = 0;
  bool isBusy = false;     ///< its command has begun, and will end by itself
  bool isLaunched = false; ///< its command, a signal or an await
  bool hasCome = false;    ///< to the meeting in front of its command, which is not over
  uint32_t flows = 0;      ///< of that command that are under way
  bool isDone() const { return next == commands.size(); }
  uint32_t command() const { return commands[next]; }
};

/// What one rank's commands refer to in one run.
struct RankState {
  const Plan *plan = nullptr;
  uint32_t firstLane = 0;
  size_t lanesLeft = 0;            ///< that are not done
  std::vector<double> issuedUs;    ///< of each command
  std::vector<uint32_t> together;  ///< findTogether()
  std::vector<bool> needsLaunch;   ///< findLaunches()
  std::vector<bool> goesOn;        ///< findGoingOn()
  std::vector<uint32_t> record;    ///< of each wait_event: the record that it waits for, or kNone
  std::vector<GemmCost> costs;     ///< of each GEMM of the Plan
  std::vector<double> flagSetUs;   ///< kNever: not signalled yet
  std::vector<uint32_t> flagLane;  ///< the lane that awaits it, or kNone
  std::vector<uint32_t> peerFlag;  ///< of each endpoint: the flag that its signal sets
  std::vector<uint32_t> waitLanes; ///< lanes that wait for a record
  /// Of each command: Job::meetings that it waits for, or kNone. A group or a collective has one in
  /// front of the first command that spells it out.
  std::vector<uint32_t> meeting;
};

/// Of a whole of groups, or of a team: none goes on before all have come.
struct Meeting {
  size_t missing = 0;
  std::vector<uint32_t> lanes; ///< of those that have come
};

struct Job {
  std::vector<RankState> ranks; ///< of the first run, then of the second one
  std::vector<Lane> lanes;      ///< rank by rank
  std::vector<Meeting> meetings;
};

/// All ranks before the first moment. `plans`, which outlive the result, are those of all ranks, in
/// rank order, or of the first ones, which stand for all (alike_ranks.h): BadInput if not.
/// Groups and collectives are spelled out with their data alone (spell_out.h), or not. Unsupported
/// if `model` lacks a GEMM.
Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model,
                    const OperationCosts &costs);

/// So many runs of `job`, which holds one. The host issues those of a rank one behind the other.
Job repeated(const Job &job, size_t runs);

} // namespace braid::simulator
