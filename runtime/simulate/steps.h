//===- runtime/simulate/steps.h - the steps of all streams, with their costs ------------------===//
#pragma once

#include "runtime/plan/alike_ranks.h"
#include "runtime/simulate/cost_model.h"
#include "runtime/simulate/flows.h"

#include <limits>

namespace braid::simulator {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Returns, for each command of a Plan, the number of commands from it on that one kernel executes
/// together. It exceeds 1 for several copies by one kernel, with the signals after them and the sum
/// that is fused into it.
std::vector<uint32_t> kernelSizes(const Plan &plan, TransferMode transferMode);

/// Returns the outline of a Plan, extended by everything else that affects times: the rank's index
/// on its host, the partners of its endpoints, and the kernels that execute its copies, which
/// depend on the places of blocks.
Outline timeOutlineOf(const Plan &plan, Shift shift);

struct Step {
  uint32_t command = 0, count = 1; ///< the first command, and their number
  double issuedUs = 0;             ///< time at which the host has issued them
  double fixedUs = 0;              ///< time before their work starts
  uint32_t meeting = kNone;        ///< index into Job::meetings
  uint32_t record = kNone;         ///< the record that a wait_event awaits
  uint32_t flag = kNone;           ///< the flag that an await awaits
  llvm::SmallVector<Flow, 1> work = {};
};

struct Lane {
  /// The event for which the next step waits.
  enum class Phase : uint8_t { Issue, Meeting, Start, End };

  uint32_t rank = 0;
  std::vector<Step> steps = {};
  size_t next = 0;
  Phase phase = Phase::Issue;
  bool isAsleep = false; ///< waits for a timer
  size_t flows = 0;      ///< active flows of its step
  bool isDone() const { return next == steps.size(); }
  const Step &step() const { return steps[next]; }
};

/// A flag in the memory of a rank.
struct PlacedFlag {
  size_t rank = 0;
  uint32_t flag = 0;
};

struct RankState {
  const Plan *plan = nullptr;
  uint32_t firstLane = 0;
  double issuedUs = 0;               ///< time at which the host has issued all commands
  std::vector<PlacedFlag> peerFlags; ///< by endpoint: the flag that its signal sets
  std::vector<double> flagSetUs;     ///< by flag; kNever if it is not set yet
};

/// A collective, or a group with the groups with which it exchanges messages. No rank continues
/// before all of them have reached it.
struct Meeting {
  size_t missing = 0;
  std::vector<uint32_t> lanes; ///< lanes that have reached it
};

struct Job {
  std::vector<RankState> ranks;
  std::vector<Lane> lanes; ///< rank by rank
  std::vector<Meeting> meetings;
};

/// Returns the initial state of all ranks. `plans` must outlive the result and are those of all
/// ranks, in rank order, or those that represent all (runtime/plan/alike_ranks.h); returns BadInput
/// otherwise. Returns Unsupported if `model` lacks a GEMM. `costs` belong to `model`. Messages
/// between hosts must have been spelled out (runtime/plan/spell_out.h).
Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model,
                    const OperationCosts &costs);

} // namespace braid::simulator
