//===- runtime/simulate/steps.h - the steps of all streams, with their costs ------------------===//
#pragma once

#include "runtime/plan/alike_ranks.h"
#include "runtime/simulate/cost_model.h"
#include "runtime/simulate/flows.h"

#include <limits>

namespace braid::simulator {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Returns, for each command of a Plan, the number of consecutive commands, starting with it, that
/// a single kernel executes. One kernel may execute several copies, the signals after them, and a
/// fused sum.
std::vector<uint32_t> kernelSizes(const Plan &plan, TransferMode transferMode);

/// Returns a Plan's outline, extended with all other properties that affect simulated times: the
/// rank's index on its host, the partners of its endpoints, and the kernels that execute its
/// copies, which depend on the positions of blocks.
Outline timeOutlineOf(const Plan &plan, Shift shift);

struct Step {
  uint32_t command = 0, count = 1; ///< first command and number of commands
  double issuedUs = 0;             ///< time at which the host has issued the commands
  double fixedUs = 0;              ///< time before the work starts
  uint32_t meeting = kNone;        ///< index into Job::meetings
  uint32_t record = kNone;         ///< the record that a wait_event waits for
  uint32_t flag = kNone;           ///< the flag that an await waits for
  llvm::SmallVector<Flow, 1> work = {};
};

struct Lane {
  /// The event for which the next step is waiting.
  enum class Phase : uint8_t { Issue, Meeting, Start, End };

  uint32_t rank = 0;
  std::vector<Step> steps = {};
  size_t next = 0;
  Phase phase = Phase::Issue;
  bool isAsleep = false; ///< waiting for a timer
  size_t flows = 0;      ///< number of active flows of the current step
  bool isDone() const { return next == steps.size(); }
  const Step &step() const { return steps[next]; }
};

/// A flag in a rank's memory.
struct PlacedFlag {
  size_t rank = 0;
  uint32_t flag = 0;
};

struct RankState {
  const Plan *plan = nullptr;
  uint32_t firstLane = 0;
  double issuedUs = 0;               ///< time at which the host has issued all commands
  std::vector<PlacedFlag> peerFlags; ///< for each endpoint, the flag that its signal sets
  std::vector<double> flagSetUs;     ///< indexed by flag; kNever if not set yet
};

/// A collective, or a group together with the groups with which it exchanges messages. No rank
/// continues until all participating ranks have reached the meeting.
struct Meeting {
  size_t missing = 0;
  std::vector<uint32_t> lanes; ///< lanes that have reached the meeting
};

struct Job {
  std::vector<RankState> ranks;
  std::vector<Lane> lanes; ///< in rank order
  std::vector<Meeting> meetings;
};

/// Returns the initial state of all ranks. `plans` must outlive the result. Returns BadInput unless
/// `plans` are the Plans of all ranks, in rank order, or represent all ranks
/// (runtime/plan/alike_ranks.h). Returns Unsupported if `model` lacks a required GEMM. `costs` must
/// belong to `model`. Messages between hosts must have been spelled out (runtime/plan/spell_out.h).
Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model,
                    const OperationCosts &costs);

} // namespace braid::simulator
