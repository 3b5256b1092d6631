//===- api/bench/row_timer.h - times rows of a bench on one rank of a job ---------------------===//
//
// plan_timer.h says what is timed. Rows stay prepared, so that they can be timed in turns; all of
// them read and write the same tensors. The processes of all ranks make the same calls.
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
  int64_t bursts = 21;  ///< bursts of a row, over all rounds; 0: none
  double rowUs = 200e3; ///< fewer runs and bursts, so that they take about this; 0: no limit
};

/// A row `auto` once it is decided, and what was chosen, for people.
struct ChosenRow {
  TimedRow row;
  std::string choice;
};
/// Decides for a row `auto`. Collective, the same on every rank.
using RowChooser = std::function<Result<ChosenRow>(const TimedRow &row)>;

class RowTimer {
public:
  /// `timer` outlives this. Without a chooser, rows `auto` are refused.
  explicit RowTimer(PlanTimer &timer, RowChooser chooser = nullptr)
      : timer_(timer), chooser_(std::move(chooser)) {}

  /// Times all rows in turns; every other round goes backwards, so that a machine that gets slower
  /// meanwhile favours no row. A row that is refused says so, and the others are timed; after any
  /// other failure the job is over. Collective; blocks.
  Result<std::vector<BenchRow>> time(llvm::ArrayRef<TimedRow> rows, const BenchTiming &timing);

private:
  struct Lowered {
    ChosenRow chosen;
    double flops;            ///< floating-point operations of a rank in a run
    std::vector<Plan> plans; ///< until it is prepared
    std::optional<TimedPlan> ready = {};
  };

  Result<ChosenRow> decide(const TimedRow &row);
  Result<Lowered> lower(const TimedRow &row);
  BenchRow begin(const TimedRow &row);
  Status timeOnce(const TimedRow &row, const BenchTiming &timing, BenchRow &result);

  PlanTimer &timer_;
  const RowChooser chooser_;
  std::map<std::string, Lowered> lowered_; ///< by name: a graph is no row of its own
  double warmUpUs_ = 0;
};

} // namespace braid
