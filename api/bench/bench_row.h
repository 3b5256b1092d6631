//===- api/bench/bench_row.h - one row of a bench, ready to be lowered ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/plan/plan.h"

#include <string>
#include <vector>

namespace braid {

/// The part of the work that a row runs.
enum class RowKind {
  Gemms,        ///< a limit: the GEMMs of `sequential` alone
  ChunkedGemms, ///< the chunked GEMMs of the given lowering alone
  Transfers,    ///< a limit: the transfers of `sequential` alone, with their sums
  Uncoupled,    ///< GEMMs and transfers of `sequential` at once, without dependencies
  Sequential,   ///< all the work, GEMMs and transfers in sequence
  Overlapped,   ///< all the work
};

/// A keyword for the beginning of a row's name, before its first `;`. Other names are schedules.
struct RowType {
  const char *name;
  RowKind kind;
  const char *help;
};
llvm::ArrayRef<RowType> rowTypes(bool isFusion);
RowKind kindOfRow(llvm::StringRef row);

/// The fusion that the rows lower in different ways, or the program, to be timed.
struct BenchProblem {
  std::string file; ///< a name for messages
  std::string text;
  CompileOptions given; ///< the lowering that the flags ask for, and the number of ranks
  bool isFusion = true;
};

struct TimedRow {
  std::string name; ///< as requested: "pairwise;protocol=put", "gemms", "H=ring,Y=pairwise"
  std::string text;
  CompileOptions options;
  std::string file = {};
  bool isGraphed = false;
  bool isAuto = false; ///< `auto`: knobs that are not given are chosen, including the launch mode
  RowKind kind = RowKind::Overlapped;
};

/// Returns true for `H=pairwise;chunks=2,Y=ring`: a row that has schedules for stages.
bool namesStages(llvm::StringRef row);

/// Makes the row `name[;knob=value]...`, or a row with a schedule for each stage. Returns BadInput
/// if `name` is unknown.
Result<TimedRow> makeRow(const BenchProblem &problem, const std::string &name, bool isGraphed);

/// Returns the part of `plan` that a row of that kind runs.
Plan partOf(Plan plan, RowKind kind);

/// Returns the floating-point operations of all GEMMs of a Plan.
double flopsOf(const Plan &plan);

} // namespace braid
