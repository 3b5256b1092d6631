//===- api/bench/operation.h - the operations of the benchmark --------------------------------===//
//
// An operation is one entry of a table, or what a FILE holds (file_bench.h). Nothing outside its
// entry knows what it is.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/bench_row.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace braid {

enum class RowKind {
  Gemm,        ///< a limit: the GEMMs alone
  ChunkedGemm, ///< the GEMMs alone, cut as a pipeline cuts them: no limit
  Transfers,   ///< a limit: the transfers alone
  Uncoupled,   ///< both at once, neither waits for the other
  Sequential,  ///< all the work, one part after the other
  Overlapped,  ///< all the work
};

/// A name that a row may have before its first `;`.
struct RowType {
  std::string name;
  RowKind kind;
  std::string help;
  bool isEagerToo = false; ///< a rival's: timed eagerly even where only graphs are asked for
};

struct Operation {
  std::string name;    ///< the subcommand; of a FILE, its path
  std::string summary; ///< a line of help
  std::string help;    ///< what its shapes and texts are
  std::string examples;
  bool hasShapes = true;                   ///< else its one shape is BenchShape()
  std::array<std::string, 3> extents = {}; ///< help: what m, n and k are
  bool hasPartials = false;                ///< ranks sum partial results, whose type can be chosen
  std::string fingerprint = {}; ///< of a FILE: what tells it from another one of that name
  std::vector<RowType> rows;
  std::vector<RowType> rivals = {};  ///< of PyTorch, in the order of their turns
  std::vector<std::string> standard; ///< rows that are timed unless it is said
  /// BadInput if it has no such row, Unsupported if not for that shape.
  std::function<Result<TimedRow>(const std::string &name, const BenchShape &shape,
                                 const BenchTypes &types, int64_t ranks, bool isGraphed)>
      makeRow;
  std::function<double(const BenchShape &shape)> flops; ///< of one rank in a run

  /// What is no RowType is a schedule, which is Overlapped.
  RowKind kindOf(llvm::StringRef row) const;
  /// For people: "32 x 8 x 8", or the FILE.
  std::string title(const BenchShape &shape) const;
};

/// All that have a name. They live as long as the program.
llvm::ArrayRef<Operation> operations();

} // namespace braid
