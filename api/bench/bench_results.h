//===- api/bench/bench_results.h - the results of a bench -------------------------------------===//
//
// A row is timed in rounds that alternate with those of all other rows of its shape. Its time is
// the median of its rounds' medians, so that a disturbance of one round changes no result.
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
/// Returns zeros if there are no samples.
Spread spreadOf(std::vector<double> samples);

/// One line of the table. Times are microseconds.
struct BenchRow {
  std::string name;
  RowKind kind = RowKind::Overlapped;
  bool isGraphed = false;                       ///< runs were replays of a graph
  double flops = 0;                             ///< floating-point operations of a rank in a run
  std::vector<std::vector<double>> rounds = {}; ///< the times of single runs, by round
  std::vector<double> bursts = {};              ///< the time of a run in each burst; may be empty
  std::string choice = {};                      ///< the schedule that `auto` chose
  std::string failure = {};                     ///< one line; empty if the row was timed
  StatusCode code = StatusCode::Ok;             ///< the exit code of the failure

  void fail(const Status &status);
  bool isTimed() const { return failure.empty() && !rounds.empty(); }
  /// Returns the median of single runs, or 0 if the row was not timed.
  double time() const;
  /// Returns the spread of all single runs of all rounds.
  Spread spread() const;
  /// Returns the median of all bursts of all rounds, or nullopt if there were none.
  std::optional<double> burstTime() const;
};

/// The limits that the rows of one shape show. Rows are compared by their bursts if all rows have
/// bursts, like the candidates of `auto`; otherwise by single runs.
struct BenchLimits {
  bool areOfBursts = false;
  double gemms = 0, transfers = 0; ///< microseconds of the fastest row; 0 if there is none

  static BenchLimits of(llvm::ArrayRef<BenchRow> rows);
  double timeOf(const BenchRow &row) const {
    return areOfBursts ? row.burstTime().value_or(0) : row.time();
  }
  /// Returns E: the longer of the two limits divided by the time of a row that has both parts.
  /// Since all of them are measured, E can exceed 1. Returns nullopt if a row is missing.
  std::optional<double> efficiency(const BenchRow &row) const;
};

/// Writes the members of a row's object: its name, and its times in microseconds or its failure.
void writeMembers(JsonWriter &json, const BenchRow &row);

} // namespace braid
