//===- runtime/simulate/steps.h - Plans as steps of streams, each with its costs --------------===//
#pragma once

#include "runtime/plan/alike_ranks.h"
#include "runtime/simulate/cost_model.h"
#include "runtime/simulate/flows.h"

#include <limits>

namespace braid::simulator {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The commands of a Plan that each kernel executes: the number of commands from this one on that
/// begin and end together, for each command of a Plan. Above 1 for several copies by one kernel,
/// with the signals after them and the sum that it adds on the way.
std::vector<uint32_t> kernelSizes(const Plan &plan, TransferMode transferMode);

/// The outline of a Plan, with what times depend on besides: the rank's place on its host, what its
/// endpoints meet, and the kernels that execute its copies. These depend on the places of blocks.
Outline timeOutlineOf(const Plan &plan, Shift shift);

/// Commands that a stream executes together.
struct Step {
  uint32_t command = 0, count = 1; ///< the first one, and the number of them
  double issuedUs = 0;             ///< when the host has issued them
  double fixedUs = 0;              ///< before their work begins
  uint32_t meeting = kNone;        ///< an index into Job::meetings
  uint32_t record = kNone;         ///< the record that a wait_event waits for
  uint32_t flag = kNone;           ///< the flag that an await waits for
  llvm::SmallVector<Flow, 1> work = {};
};

/// A stream of a rank.
struct Lane {
  /// The state of its next step: it waits for that.
  enum class Phase : uint8_t { Issue, Meeting, Start, End };

  uint32_t rank = 0;
  std::vector<Step> steps = {};
  size_t next = 0;
  Phase phase = Phase::Issue;
  bool isAsleep = false; ///< until its timer
  size_t flows = 0;      ///< in progress, of its step
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
  double issuedUs = 0;               ///< when the host has issued everything
  std::vector<PlacedFlag> peerFlags; ///< by endpoint: the flag that its signal sets
  std::vector<double> flagSetUs;     ///< by flag; kNever: not signalled yet
};

/// A group with those that it exchanges messages with, or a collective: no rank goes on before all
/// of them have reached it.
struct Meeting {
  size_t missing = 0;
  std::vector<uint32_t> lanes; ///< that have reached it
};

struct Job {
  std::vector<RankState> ranks;
  std::vector<Lane> lanes; ///< rank by rank
  std::vector<Meeting> meetings;
};

/// All ranks before the first moment. `plans`, which outlive the result, are those of all ranks, in
/// rank order, or of the first ones, which stand for all (runtime/plan/alike_ranks.h):
/// BadInput if not.
/// Unsupported if `model` lacks a GEMM. `costs` are operations of `model`. If `knowsMessages`,
/// groups and collectives cost what the model says; else they take no time of their own.
Result<Job> makeJob(llvm::ArrayRef<Plan> plans, const CostModel &model, const OperationCosts &costs,
                    bool knowsMessages);

} // namespace braid::simulator
