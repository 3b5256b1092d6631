//===- api/bench/operation_rows.h - rows of an operation, from its texts ----------------------===//
#pragma once

#include "api/bench/bench_row.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// What the text of a row depends on.
struct RowProblem {
  BenchShape shape;
  BenchTypes types;
  int64_t ranks = 1;
  Configuration config = {}; ///< the knobs that the row's name has

  std::string element() const { return braid::name(types.element).str(); }
  std::string partial() const { return braid::name(types.partial).str(); }
  std::string protocol() const { return braid::name(config.protocol()).str(); }
  bool pulls() const { return config.protocol() == Protocol::Get; }
  bool areBlocksEqual() const { return shape.m % ranks == 0; }
  /// Of a full block. Each rank has one, or fewer rows where these run out.
  int64_t blockRows() const { return (shape.m - 1) / ranks + 1; }
  /// These as the extent of a fusion's axis, behind that of the ranks.
  std::string blockExtent() const;
  /// How many rows there are of the block of that rank, which is an index. Empty: all.
  std::string rowsOf(const std::string &rank) const;
};
using RowText = std::string (*)(const RowProblem &problem);

/// A row that is no schedule.
struct NamedText {
  const char *name;
  RowText text;
  bool isProgram = true; ///< else a fusion, which the knobs of the row's name lower
  PlanPart part = PlanPart::All;
  bool mayBeCollective = false; ///< transfers=collective is another program
};

/// The texts of all rows of an operation.
struct OperationTexts {
  RowText fusion; ///< the operation itself, which schedules lower, and which `auto` chooses for
  std::vector<NamedText> others;
  bool hasBlocks = true; ///< each rank has a block of the rows
};

/// The row that `name[;knob=value]...` stands for; `problem` comes without its knobs. BadInput says
/// what is not understood, Unsupported what cannot be had for such a shape.
Result<TimedRow> makeRow(const OperationTexts &texts, const std::string &name, RowProblem problem,
                         bool isGraphed);

/// The text of one GEMM of m rows on every rank, as if nothing had to move: A[m, k], B[k, n]. Its
/// result is a partial one where there are any.
std::string gemmAlone(const RowProblem &problem);

/// %name is `entry`, a block in a tensor such as %all[rank], or those rows of it that there are,
/// which rowsOf() says.
std::string selectBlock(const std::string &name, const std::string &entry, const std::string &rows);

} // namespace braid
