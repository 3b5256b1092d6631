//===- api/bench/bench_results.h - the results of a bench -------------------------------------===//
//
// The rounds of all rows for the same shape are interleaved. A row's time is the median of its
// rounds' medians, so that a disturbance in a single round does not affect the row's time.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/bench_row.h"
#include "runtime/json.h"

#include <optional>
#include <vector>

namespace braid {

struct Spread {
  double median = 0, low = 0, high = 0; ///< low, high: the 10th and 90th percentiles
};
/// Returns zeros if there are no samples.
Spread spreadOf(std::vector<double> samples);

/// One row of the results table. Times are in microseconds.
struct BenchRow {
  std::string name;
  RowKind kind = RowKind::Overlapped;
  bool isGraphed = false;                       ///< runs were replays of a graph
  double flops = 0;                             ///< floating-point operations per rank and run
  std::vector<std::vector<double>> rounds = {}; ///< times of single runs, by round
  std::vector<double> bursts = {};              ///< time per run of each burst; may be empty
  std::string choice = {};                      ///< the schedule that `auto` chose
  std::string failure = {};                     ///< one line; empty if the row was timed
  StatusCode code = StatusCode::Ok;             ///< the exit code of the failure

  void fail(const Status &status);
  bool isTimed() const { return failure.empty() && !rounds.empty(); }
  /// Returns the median of the rounds' medians of single runs, or 0 if the row was not timed.
  double time() const;
  /// Returns the spread of the single runs in all rounds.
  Spread spread() const;
  /// Returns the median burst time over all rounds, or nullopt if there were no bursts.
  std::optional<double> burstTime() const;
};

/// Lower bounds on the time for one shape, measured by the shape's rows. If all timed rows have
/// bursts, rows are compared by burst times, as `auto` compares candidates. Otherwise, they are
/// compared by the times of single runs.
struct BenchLimits {
  bool areOfBursts = false;
  double gemms = 0, transfers = 0; ///< time of the fastest row of each kind; 0 if there is none

  static BenchLimits of(llvm::ArrayRef<BenchRow> rows);
  double timeOf(const BenchRow &row) const {
    return areOfBursts ? row.burstTime().value_or(0) : row.time();
  }
  /// Returns E, the efficiency of a row with GEMMs and transfers: the larger limit divided by the
  /// row's time. E can exceed 1, because limits are measured. Returns nullopt if a time is missing.
  std::optional<double> efficiency(const BenchRow &row) const;
};

/// Writes the members of a row's JSON object: its name, and its times or its failure.
void writeMembers(JsonWriter &json, const BenchRow &row);

} // namespace braid
