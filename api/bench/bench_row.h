//===- api/bench/bench_row.h - one row of a bench, ready to be lowered ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/plan/plan.h"

#include <string>

namespace braid {

/// The part of the work that a row times.
enum class RowKind {
  Gemms,        ///< a limit: only the GEMMs of the schedule `sequential`
  ChunkedGemms, ///< only the GEMMs of the given schedule, in chunks
  Transfers,    ///< a limit: only the transfers of `sequential`, with their sums
  Uncoupled,    ///< the GEMMs and transfers of `sequential`, concurrent and independent
  Sequential,   ///< all the work, GEMMs and transfers in sequence
  Overlapped,   ///< all the work, GEMMs and transfers overlapped
};

/// A keyword that can precede the first `;` in the name of a fusion's row. All other names begin
/// with a schedule.
struct RowType {
  const char *name;
  RowKind kind;
  const char *help;
};
llvm::ArrayRef<RowType> rowTypes();
RowKind kindOfRow(llvm::StringRef row);

/// The fusion or program to time. Each row lowers a fusion in a different way.
struct BenchProblem {
  std::string file; ///< the file name for messages
  std::string text;
  CompileOptions given; ///< the lowering options from flags, and the number of ranks
  bool isFusion = true;
};

struct TimedRow {
  std::string name; ///< as requested: "pairwise;protocol=put", "gemms", "H=ring,Y=pairwise"
  std::string text;
  CompileOptions options;
  std::string file = {};
  bool isGraphed = false;
  bool isAuto = false; ///< true for `auto`, which chooses all unset knobs and the launch mode
  RowKind kind = RowKind::Overlapped;
};

/// Returns true if `row` specifies schedules for stages, such as `H=pairwise;chunks=2,Y=ring`.
bool namesStages(llvm::StringRef row);

/// Creates the row `name[;knob=value]...`, or a row with a schedule for each stage. Returns
/// BadInput if the name is unknown.
Result<TimedRow> makeRow(const BenchProblem &problem, const std::string &name, bool isGraphed);

/// Returns a Plan with the GEMMs and the transfers of `plan` (see plan_parts.h), but no
/// dependencies between them. Transfers use separate streams, which start and end with the run.
Plan uncoupled(const Plan &plan);

/// Returns the part of `plan` that a row of kind `kind` runs.
Plan partOf(Plan plan, RowKind kind);

} // namespace braid
