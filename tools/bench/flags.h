//===- tools/bench/flags.h - the flags of `braid bench` ---------------------------------------===//
#pragma once

#include "api/bench/operation.h"
#include "api/bench/row_timer.h"
#include "tools/command.h"

#include <cstdlib>

namespace braid::tools {

struct BenchFlags {
  const Operation *operation = nullptr; ///< null if a FILE is timed instead
  SourceFlags source;                   ///< FILE, and how to lower it
  BenchProblem file;                    ///< the contents of FILE, once read
  std::vector<std::string> standard;    ///< the default rows

  std::vector<int64_t> m, n, k;
  std::vector<std::string> listed; ///< shapes as MxNxK, instead of m, n and k
  std::string dtype = "bf16";
  int64_t ranks = 2;
  std::string backend = "cpu";
  std::vector<std::string> impl; ///< empty means the default rows
  std::string graph;             ///< empty means "both" if the backend has graphs, otherwise "no"
  int64_t rounds = 1, iterations = 20, bursts = 21, rowMs = 200;
  int64_t timeoutMs = 60000;
  std::string json;

  bool isRank = std::getenv("BRAID_MEETING"); ///< true if `braid bench` started this process

  /// Adds the flags for `operation` or, if `operation` is null, for a FILE.
  void addTo(CLI::App &app);
  /// Checks the flags and sets defaults. Errors name the flag, and the expected and actual values.
  Status check(const Backend &backend);

  // The following functions may be called only after check() has returned Ok.
  std::vector<BenchShape> shapes() const;
  std::string titleOf(const BenchShape &shape) const;
  /// Returns the rows for a shape in the order in which they are timed.
  std::vector<TimedRow> rowsOf(const BenchShape &shape, const Backend &backend) const;
  BenchTiming timing() const { return {rounds, iterations, bursts, 1e3 * double(rowMs)}; }

private:
  void addShapesTo(CLI::App &app);
  Status checkShapes() const;
  Status checkNumbers();
  BenchProblem problemOf(const BenchShape &shape, const Backend &backend) const;
};

/// Joins the job that `braid bench` has started, and times the rows of all shapes. Rank 0 prints a
/// table for each shape and writes the JSON. Returns the exit code. If a row is refused, the job
/// still times all other rows before it fails.
int benchRank(const BenchFlags &flags, const Backend &backend);

} // namespace braid::tools
