//===- api/bench/row_timer.h - times rows of a bench on one rank of a job ---------------------===//
//
// plan_timer.h describes the timing. Rows stay prepared, so that they can be timed repeatedly, and
// all of them use the same tensors. The processes of all ranks must make the same calls.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/bench_results.h"
#include "api/bench/bench_row.h"
#include "api/timing/plan_timer.h"

#include <functional>
#include <map>

namespace braid {

struct BenchTiming {
  int64_t rounds = 1, iterations = 20;
  int64_t bursts = 21;  ///< bursts of a row over all rounds; 0 means no bursts
  double rowUs = 200e3; ///< time limit of a row, which reduces runs and bursts; 0 means no limit
};

/// Chooses the schedule of a row `auto`. Collective; equal on every rank.
using RowChooser = std::function<Result<Configurations>(const TimedRow &row)>;

class RowTimer {
public:
  /// `timer` must outlive this.
  RowTimer(PlanTimer &timer, RowChooser chooser) : timer_(timer), chooser_(std::move(chooser)) {}

  /// Times all rows in rounds. Every other round has the reverse order, so that a machine that
  /// slows down favours no row. A refused row reports that, and the others are timed. After any
  /// other failure the job ends. Collective; blocks.
  Result<std::vector<BenchRow>> time(llvm::ArrayRef<TimedRow> rows, const BenchTiming &timing);

private:
  struct Lowered {
    TimedRow row;            ///< if it is `auto`, with the schedule that was chosen
    std::string choice;      ///< for users; empty if nothing was chosen
    double flops;            ///< floating-point operations of a rank in a run
    std::vector<Plan> plans; ///< empty after preparation
    std::optional<TimedPlan> ready = {};
  };

  Result<Lowered> lower(TimedRow row);
  BenchRow begin(const TimedRow &row);
  Status timeOnce(const TimedRow &row, const BenchTiming &timing, BenchRow &result);

  PlanTimer &timer_;
  const RowChooser chooser_;
  std::map<std::string, Lowered> lowered_; ///< by name: a graph uses the same entry
  double warmUpUs_ = 0;
};

} // namespace braid
