//===- api/bench/bench_row.h - one row of a bench, ready to be lowered ------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "runtime/execute/transfer_mode.h"

#include <string>

namespace braid {

/// The extents of an operation of the benchmark. All 0 where the text of a FILE has them.
struct BenchShape {
  int64_t m = 0, n = 0, k = 0;
  bool operator==(const BenchShape &) const = default;
};

/// What the tensors of an operation hold.
struct BenchTypes {
  DType element;
  DType partial; ///< of partial results that ranks send and sum

  BenchTypes(DType all) : BenchTypes(all, all) {}
  BenchTypes(DType elements, DType partials) : element(elements), partial(partials) {}
};

/// Which commands of its Plans a row runs; see runtime/plan/plan_parts.h.
enum class PlanPart { All, Gemms, Transfers };

struct TimedRow {
  std::string name; ///< as asked for: "pairwise;protocol=put", "matmul", "H=ring,Y=pairwise"
  std::string text; ///< a fusion or a program
  CompileOptions options;
  std::string file = {}; ///< of the text, in messages; empty: the row's name
  bool isGraphed = false;
  TransferMode transferMode = {};
  bool isAuto = false; ///< `auto`: what is not given is to be chosen, the way to issue included
  PlanPart part = PlanPart::All;
};

/// True of `H=pairwise;chunks=2,Y=ring`: a row that has a schedule for some stage.
bool namesStages(llvm::StringRef row);

/// What `name[;key=value]...`, or a schedule for each stage, says of a row, before anybody knows
/// what is lowered: `options` with what its knobs say (Configurations::parse()), and its modes.
/// BadInput says what is not understood.
Result<TimedRow> readRowName(const std::string &name, int64_t ranks, bool isGraphed,
                             CompileOptions options);

} // namespace braid
