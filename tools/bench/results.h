//===- tools/bench/results.h - all that was measured, and its table and files -----------------===//
#pragma once

#include "api/bench/bench_results.h"
#include "tools/bench/flags.h"

#include <string>
#include <vector>

namespace braid::tools {

/// One shape's batch, beside its rows.
struct BenchBatch {
  BenchShape shape;
  std::string date; ///< UTC, its beginning
  double seconds = 0;
  std::string rival;                    ///< what the rival's rows ran on; empty: there were none
  nlohmann::json gpusBefore, gpusAfter; ///< see GpuState::take
};

class BenchResults {
public:
  explicit BenchResults(const BenchFlags &flags) : flags_(flags) {}

  /// Takes in what the JSON file has, if it exists and the command is to go on with it. BadInput if
  /// it is no such file or answers another question.
  Status resume();
  /// BadInput if a file that was asked for cannot be written.
  Status checkFiles() const;
  /// What ours runs on, as the ranks say. BadInput if the file that was resumed says otherwise.
  Status setDevice(const std::string &device);

  /// Whether a row is there and not to be timed again.
  bool has(const BenchRow &row) const;
  /// Ours before a rival's. Rows that are there already are replaced.
  void add(std::vector<BenchRow> rows, const BenchBatch &batch);
  std::vector<const BenchRow *> rowsOf(const BenchShape &shape) const {
    return rowsOfShape(rows_, shape);
  }

  /// On stdout, or on stderr if a file goes there.
  void printTable(const BenchShape &shape) const;
  /// Writes the files that were asked for, each as a whole: also before the last time, but for what
  /// can be written once only, such as a pipe.
  Status write(bool isLast) const;

private:
  nlohmann::json question() const;
  nlohmann::json jsonOf(const BenchBatch &batch) const;
  nlohmann::json settings() const;
  nlohmann::json labels() const;
  nlohmann::json about() const;
  std::string json() const;
  std::string csv() const;
  std::string csvLine(const BenchRow &row, const ShapeSummary &summary) const;

  const BenchFlags &flags_;
  std::string device_;
  bool isResumed_ = false;
  std::vector<BenchRow> rows_;
  nlohmann::json batches_ =
      nlohmann::json::array(); ///< one for each batch, also of the resumed file
};

/// UTC, as 2026-11-20T12:00:00Z.
std::string timeNow();

} // namespace braid::tools
