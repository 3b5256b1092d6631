//===- tools/bench/flags.h - the flags of `braid bench` ---------------------------------------===//
#pragma once

#include "api/bench/operation.h"
#include "api/bench/row_timer.h"
#include "runtime/execute/backend.h"
#include "tools/command.h"

#include <cstdlib>

namespace braid::tools {

/// Parses a shape such as "8192x7168x4096", without checking ranges. Returns nullopt on failure.
std::optional<BenchShape> parseShape(llvm::StringRef text);

struct BenchFlags {
  const Operation *operation = nullptr; ///< null if a FILE is timed
  SourceFlags source;                   ///< FILE, and how to lower it
  BenchProblem file;                    ///< the text of FILE, once it has been read
  std::vector<std::string> standard;    ///< the rows that are timed by default

  std::vector<int64_t> m, n, k;
  std::vector<std::string> listed; ///< instead of m, n and k: shapes as MxNxK
  std::string dtype = "bf16";
  int64_t ranks = 2;
  std::string backend = "cpu";
  std::vector<std::string> impl; ///< empty means the default rows
  std::string graph;             ///< empty means "both" if the backend has graphs, otherwise "no"
  int64_t rounds = 1, iterations = 20, bursts = 21, rowMs = 200;
  int64_t timeoutMs = 60000;
  std::string json;

  bool isRank = std::getenv("BRAID_MEETING"); ///< `braid bench` has started this process as a rank

  /// Adds the flags for `operation`, or for a FILE if it is null.
  void addTo(CLI::App &app);
  /// Checks the flags and sets defaults. BadInput names the flag and the expected and actual value.
  Status check(const Backend &backend);

  // The following require that check() has returned Ok.
  std::vector<BenchShape> shapes() const;
  std::string titleOf(const BenchShape &shape) const;
  /// Returns the rows of a shape in the order in which they are timed.
  std::vector<TimedRow> rowsOf(const BenchShape &shape, const Backend &backend) const;
  BenchTiming timing() const { return {rounds, iterations, bursts, 1e3 * double(rowMs)}; }

private:
  void addShapesTo(CLI::App &app);
  Status checkShapes() const;
  Status checkNumbers();
  BenchProblem problemOf(const BenchShape &shape, const Backend &backend) const;
};

} // namespace braid::tools
