//===- api/bench/bench_row.h - one row of a bench, ready to be lowered ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/execute/transfer_mode.h"
#include "runtime/plan/plan.h"

#include <string>
#include <vector>

namespace braid {

/// The part of the work that a row runs.
enum class RowKind {
  Gemms,        ///< a limit: the GEMMs of `sequential` alone
  ChunkedGemms, ///< the GEMMs of the given lowering alone: what cutting them costs
  Transfers,    ///< a limit: the transfers of `sequential` alone, with their sums
  Uncoupled,  ///< the GEMMs and the transfers of `sequential` at once, neither waits for the other
  Sequential, ///< all the work, one part after the other
  Overlapped, ///< all the work
};

/// A name that a row may have before its first `;`. Any other name of a fusion's row is a schedule.
struct RowType {
  const char *name;
  RowKind kind;
  const char *help;
};
llvm::ArrayRef<RowType> rowTypes(bool isFusion);
RowKind kindOfRow(llvm::StringRef row);

/// The fusion that rows lower in different ways, or the program, that is timed.
struct BenchProblem {
  std::string file; ///< a name for messages
  std::string text;
  CompileOptions given; ///< the lowering that the flags ask for, and the number of ranks
  bool isFusion = true;
};

struct TimedRow {
  std::string name; ///< as asked for: "pairwise;protocol=put", "gemms", "H=ring,Y=pairwise"
  std::string text;
  CompileOptions options;
  std::string file = {};
  bool isGraphed = false;
  TransferMode transferMode = {};
  bool isAuto = false; ///< `auto`: what is not given is chosen, the launch mode included
  RowKind kind = RowKind::Overlapped;
};

/// True of `H=pairwise;chunks=2,Y=ring`: a row that has a schedule for some stage.
bool namesStages(llvm::StringRef row);

/// The row `name[;knob=value]...`, or a schedule for each stage. BadInput if there is no such row.
Result<TimedRow> makeRow(const BenchProblem &problem, const std::string &name, bool isGraphed);

/// The part of `plan`, to which a row's text is lowered, that a row of that kind runs.
Plan partOf(Plan plan, RowKind kind);

/// Floating-point operations of the GEMMs of a Plan.
double flopsOf(const Plan &plan);

} // namespace braid
