//===- api/bench/row_timer.h - times rows of a bench on one rank of a job ---------------------===//
//
// What is timed is in rank_times.h. Rows stay prepared until the timer is told to forget them, so
// that they can be timed in turns; all of them read and write the same tensors.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/bench_row.h"
#include "api/timing/plan_timer.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace braid {

struct BenchTiming {
  int64_t warmUp = 5, iterations = 20;
  /// Fewer of both, but not fewer than 1 and 3, so that they take about this long; 0: no limit.
  double limitUs = 0;
  /// So many to warm up, limit or not, that they take about this long, but not more than 100,000;
  /// 0: no more than those above. A GPU that idled is faster for a while than one that did not, so
  /// each row has to leave behind what was before it.
  double warmUpUs = 0;
  double idleGapUs = kIdleGapUs; ///< before each run; counts for the two above
  /// Bursts beside them: runs one right after the other, as layers of a model follow one another.
  /// They have the same limit, and go on as long to warm up, but for one more that is not timed.
  int64_t bursts = 0;

  /// The numbers for runs that take `us`, or 0 while that is not known. Every rank has to give the
  /// same time.
  BenchTiming within(double us) const;
  /// How many runs that take `us` each make a burst: some 10 ms of them, 2 to 10,000.
  static int64_t runsOfBurst(double us);
};

/// Microseconds, each the maximum over ranks.
struct RowTimes {
  std::vector<double> us;      ///< of each iteration
  std::vector<double> burstUs; ///< of a run in each burst, on average
};

/// A row `auto` once it is decided, and what was chosen, for people.
struct ChosenRow {
  TimedRow row;
  std::string choice;
};
/// Decides for a row `auto`. Collective, the same on every rank.
using RowChooser = std::function<Result<ChosenRow>(const TimedRow &row)>;

/// Times rows on one rank of a job. The processes of all ranks make the same calls.
class RowTimer {
public:
  /// `timer` outlives this.
  explicit RowTimer(PlanTimer &timer) : timer_(timer) {}
  /// Without one, rows `auto` are refused.
  void setChooser(RowChooser chooser) { chooser_ = std::move(chooser); }

  /// Lowers a row, unless that is done; its graph is the same row. No rank meets another here, but
  /// to choose for `auto`, and what one refuses, all refuse: the job can go on without the row.
  Status lower(const TimedRow &row);
  /// What was chosen for a row that was lowered; empty if nothing was to be.
  const std::string &choiceOf(const TimedRow &row) const;
  /// Times a row that was lowered; prepares it first, unless that is done. Collective; blocks.
  /// After a failure the job is over.
  Result<RowTimes> time(const TimedRow &row, const BenchTiming &timing);
  /// The next rows are of another shape. What was prepared for the others is given back.
  void forgetRows();

private:
  struct Lowered {
    ChosenRow chosen;
    std::vector<Plan> plans; ///< until it is prepared
    std::optional<TimedPlan> ready = {};
  };

  Result<ChosenRow> decide(const TimedRow &row);
  Result<std::vector<double>> timeRuns(TimedPlan &plan, const BenchTiming &timing);
  Result<std::vector<double>> timeBursts(TimedPlan &plan, const BenchTiming &timing, double us);

  PlanTimer &timer_;
  RowChooser chooser_;
  std::map<std::string, Lowered> rows_; ///< of this shape, by name
};

} // namespace braid
