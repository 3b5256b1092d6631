//===- tools/bench/flags.h - what `braid bench` was asked for ---------------------------------===//
#pragma once

#include "api/bench/operation.h"
#include "api/timing/rank_times.h"
#include "runtime/execute/backend.h"
#include "tools/command.h"

namespace braid::tools {

/// "8192x7168x4096", whose numbers may be any integers; nothing if it is not that.
std::optional<BenchShape> parseShape(llvm::StringRef text);

struct BenchFlags {
  Operation operation;  ///< of a FILE: once it has been read
  SourceFlags source;   ///< of a FILE
  std::string fileText; ///< what FILE holds

  std::vector<int64_t> m, n, k;
  std::vector<std::string> listed; ///< shapes as MxNxK, instead
  std::string dtype = "bf16";
  std::string partial; ///< of partial results; empty: the same
  int64_t ranks = 2;
  std::string backend = "cpu";
  std::vector<std::string> impl; ///< empty: the standard ones
  std::string graph;             ///< empty: what the backend can do
  int64_t iterations = 20, warmUp = 5;
  std::optional<int64_t> rounds;   ///< not given: 5 beside a rival, else 1
  int64_t bursts = 21;             ///< over all rounds; 0: none
  int64_t rowMs = 200;             ///< 0: no limit
  std::optional<int64_t> warmUpMs; ///< not given: 0 on cpu, else see warmUpTimeMs()
  int64_t idleGapUs = static_cast<int64_t>(kIdleGapUs);
  int64_t timeoutMs = 60000;
  int64_t timeLimit = 0; ///< seconds; 0: none
  std::string csv, json;
  bool resumes = false, retriesFailed = false;
  std::vector<std::string> labels;
  std::string against; ///< "", or "torch"
  std::string python = "python3";
  std::string torchRows;     ///< the worker's script; empty: the one that comes with this program
  int64_t jobMib = 32 << 10; ///< a job of ranks that has allocated more (of each) is replaced

  std::string requests, answers; ///< of a rank that this command has started: named pipes

  /// Those of an operation that has shapes, or of a FILE.
  void addTo(CLI::App &app);
  /// BadInput names the flag, what was expected and what came. Fills in what was not given.
  Status check(const Backend &backend);

  /// All of them, once check() is Ok.
  std::vector<BenchShape> shapes() const;
  bool usesGpus() const { return backend != "cpu"; }
  /// How long a row of that shape runs untimed: what was given, or else until a GPU whose power
  /// limits it has settled.
  int64_t warmUpTimeMs(const BenchShape &shape) const;
  /// BadInput if there are none of these, or not together.
  Result<BenchTypes> types() const;
  /// Whether a row says of itself that it is a graph.
  static bool isGraphByName(llvm::StringRef row) { return row.contains("launch=graph"); }
  /// Eager, graph, or both.
  std::vector<bool> graphChoices() const;

private:
  void addShapesTo(CLI::App &app);
};

} // namespace braid::tools
