//===- api/bench/bench_results.h - what a bench measured, and what follows from it ------------===//
//
// A row was timed in rounds, in turns with all others of its shape. Its time is the median of its
// rounds' medians: a disturbance of one round, on whichever row it falls, moves no result.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/bench_row.h"
#include "runtime/json.h"

#include <optional>
#include <vector>

namespace braid {

struct Spread {
  double median = 0, low = 0, high = 0; ///< low and high: the 10th and 90th percentile
};
/// All zero if there are no samples.
Spread spreadOf(std::vector<double> samples);

/// One line of the table. Times are microseconds.
struct BenchRow {
  std::string name;
  RowKind kind = RowKind::Overlapped;
  bool isGraphed = false;                       ///< runs were replays of a graph
  double flops = 0;                             ///< floating-point operations of a rank in a run
  std::vector<std::vector<double>> rounds = {}; ///< the times of single runs, by round
  std::vector<double> bursts = {};              ///< the time of a run in each burst; may be empty
  std::string choice = {};                      ///< the schedule that `auto` has chosen
  std::string failure = {};                     ///< one line; empty: it was timed
  StatusCode code = StatusCode::Ok;             ///< the exit code of the failure

  void fail(const Status &status);
  bool isTimed() const { return failure.empty() && !rounds.empty(); }
  /// The median of single runs; 0 if it was not timed.
  double time() const;
  /// The spread of all single runs of all rounds.
  Spread spread() const;
  /// The median of all bursts of all rounds. Empty: there were none.
  std::optional<double> burstTime() const;
};

/// The limits that the rows of one shape show. Rows are compared by their bursts if all of them
/// have some, as `auto` compares its candidates; else by single runs.
struct BenchLimits {
  bool areOfBursts = false;
  double gemms = 0, transfers = 0; ///< microseconds of the fastest alone; 0: there is none

  static BenchLimits of(llvm::ArrayRef<BenchRow> rows);
  double timeOf(const BenchRow &row) const {
    return areOfBursts ? row.burstTime().value_or(0) : row.time();
  }
  /// E: the longer of the two over the time of a row that has both parts. Both were measured, so it
  /// can exceed 1. Empty if a row is missing.
  std::optional<double> efficiency(const BenchRow &row) const;
};

/// The members of a row's object: its name, and its times in microseconds or its failure.
void writeMembers(JsonWriter &json, const BenchRow &row);

} // namespace braid
