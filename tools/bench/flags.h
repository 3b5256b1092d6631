//===- tools/bench/flags.h - what `braid bench` was asked for ---------------------------------===//
#pragma once

#include "api/bench/operation.h"
#include "api/bench/row_timer.h"
#include "runtime/execute/backend.h"
#include "tools/command.h"

namespace braid::tools {

/// "8192x7168x4096", whose numbers may be any integers; nothing if it is not that.
std::optional<BenchShape> parseShape(llvm::StringRef text);

struct BenchFlags {
  const Operation *operation = nullptr; ///< null: a FILE is timed
  SourceFlags source;                   ///< for a FILE: how to lower it
  BenchProblem file;                    ///< the text of FILE, once it has been read
  std::vector<std::string> standard;    ///< the rows that are timed unless others are named

  std::vector<int64_t> m, n, k;
  std::vector<std::string> listed; ///< shapes as MxNxK, instead
  std::string dtype = "bf16";
  int64_t ranks = 2;
  std::string backend = "cpu";
  std::vector<std::string> impl; ///< empty: the standard ones
  std::string graph;             ///< empty: what the backend can do
  int64_t rounds = 1, iterations = 20, bursts = 21, rowMs = 200;
  int64_t timeoutMs = 60000;
  int64_t timeLimit = 0; ///< seconds; 0: none
  std::string json;

  // For a rank that this command has started: its shape, and where rank 0 writes the rows.
  int64_t rankShape = 0;
  std::string rankRows;

  /// The flags of an operation, or of a FILE.
  void addTo(CLI::App &app);
  /// BadInput names the flag, what was expected and what came. Fills in what was not given.
  Status check(const Backend &backend);

  // Once check() is Ok.
  std::vector<BenchShape> shapes() const;
  std::string titleOf(const BenchShape &shape) const;
  /// The rows of a shape in the order of their turns.
  std::vector<TimedRow> rowsOf(const BenchShape &shape, const Backend &backend) const;
  BenchTiming timing() const { return {rounds, iterations, bursts, 1e3 * double(rowMs)}; }

private:
  void addShapesTo(CLI::App &app);
  Status checkShapes() const;
  Status checkNumbers();
  BenchProblem problemOf(const BenchShape &shape, const Backend &backend) const;
};

} // namespace braid::tools
