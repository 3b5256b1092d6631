//===- api/plan_timer.h - times Plans on the ranks of a job -----------------------------------===//
//
// What is timed is in rank_times.h, what inputs hold in random_tile.h.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/rank_times.h"
#include "runtime/backend.h"

#include <deque>
#include <memory>

namespace braid {

/// The Plans that were timed on a cluster. Made before it and destroyed after it: its devices name
/// their commands until the end. One for each rank.
using TimedPlans = std::deque<std::vector<Plan>>;

/// How often a Plan is run to be timed. All ranks do the same.
struct TimingEffort {
  int64_t warmUp = 2;
  int64_t least = 3, most = 11; ///< timed runs; as many of them as fit the budget
  double budgetUs = 20000;
};

/// One rank of those that time together. Every call is collective: each rank makes the same ones,
/// and gets the same answer. Device memory that they need stays allocated until the cluster goes,
/// but calls share what they can.
class PlanTimer {
public:
  /// Without a barrier they meet by Transport::allGather, which is less close.
  PlanTimer(Cluster &cluster, int64_t rank, TimedPlans &plans, Barrier barrier = nullptr);

  int64_t rank() const { return rank_; }
  int64_t ranks() const { return cluster_.ranks(); }
  Device &device() { return cluster_.device(rank_); }
  Transport &transport() { return cluster_.transport(rank_); }

  /// Medians over some runs, for each of `ways` in order. Blocks. `plans` are those of all ranks.
  /// Unsupported if the device does not offer `means`.
  Result<std::vector<RunTime>> time(std::vector<Plan> plans, llvm::ArrayRef<Issuing> ways,
                                    const TimingEffort &effort = {}, TransferMeans means = {});
  /// Of device memory, so far.
  int64_t allocatedBytes() const { return allocatedBytes_; }
  /// Rank 0's text, on every rank.
  Result<std::string> fromRankZero(std::string mine);

private:
  struct Arguments {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
  };
  /// Memory for arguments, used by one Plan after the other.
  struct Loan {
    void *memory = nullptr;
    int64_t bytes = 0;
    DType filledWith = DType::F32;
  };
  Result<Arguments> makeArguments(const Plan &plan);
  Result<Loan *> borrow(std::deque<Loan> &loans, size_t slot, int64_t bytes);
  Result<void *> borrowFilled(size_t slot, int64_t bytes, DType dtype);
  Status fill(const Loan &loan);
  Status meet();
  Result<RunTime> once(Prepared &prepared, Arguments &arguments, Issuing issuing);
  Result<double> warmUp(Prepared &prepared, Arguments &arguments, Issuing issuing, int64_t runs);
  Result<RunTime> repeat(Prepared &prepared, Arguments &arguments, Issuing issuing,
                         const TimingEffort &effort);

  Cluster &cluster_;
  const int64_t rank_;
  TimedPlans &plans_;
  const Barrier barrier_;
  std::deque<Loan> inputs_, outputs_;
  int64_t allocatedBytes_ = 0;
};

} // namespace braid
