//===- api/bench/row_timer.h - times rows of a bench on one rank of a job ---------------------===//
//
// The file plan_timer.h describes how runs are timed. Rows share tensors and remain prepared, so
// that they can be timed repeatedly. All ranks must make the same calls.
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
  int64_t bursts = 21;  ///< bursts per row over all rounds; 0 means no bursts
  double rowUs = 200e3; ///< time budget for runs and bursts per row; 0 means no limit
};

/// Chooses the schedule for an `auto` row. Collective; returns the same schedule on all ranks.
using RowChooser = std::function<Result<Configurations>(const TimedRow &row)>;

class RowTimer {
public:
  /// `timer` must outlive this object.
  RowTimer(PlanTimer &timer, RowChooser chooser) : timer_(timer), chooser_(std::move(chooser)) {}

  /// Times all rows in rounds. Every other round is in reverse order, so that a gradual slowdown of
  /// the machine favors no row. If a row cannot be lowered, its BenchRow records the failure, and
  /// the other rows are still timed. Any other failure ends the job. Collective; blocks.
  Result<std::vector<BenchRow>> time(llvm::ArrayRef<TimedRow> rows, const BenchTiming &timing);

private:
  struct Lowered {
    TimedRow row;            ///< includes the chosen schedule if the row is `auto`
    std::string choice;      ///< shown to users; empty if nothing was chosen
    double flops;            ///< floating-point operations per rank and run
    std::vector<Plan> plans; ///< empty after preparation
    std::optional<TimedPlan> ready = {};
  };

  Result<Lowered> lower(TimedRow row);
  BenchRow begin(const TimedRow &row);
  Status timeOnce(const TimedRow &row, const BenchTiming &timing, BenchRow &result);

  PlanTimer &timer_;
  const RowChooser chooser_;
  std::map<std::string, Lowered> lowered_; ///< by row name; all launch modes share an entry
  double warmUpUs_ = 0;
};

} // namespace braid
