//===- api/gather_bench.h - the ways to do gather+matmul, and its limits ----------------------===//
//
// A row is one way to do the work, or a part of it that no way can beat: the product alone, the
// gather alone. What times them is in gather_timer.h, what becomes of the times in bench_results.h.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/compile.h"
#include "runtime/device.h"

#include <string>

namespace braid {

/// C[m, n] = A[m, k] · B[k, n]; each rank has m / ranks rows of A, and all of B, of n columns.
struct GatherShape {
  int64_t m = 0, n = 0, k = 0;
  bool operator==(const GatherShape &) const = default;
};

struct GatherRow {
  std::string name; ///< as asked for: "pairwise;protocol=put", "matmul", "gather"
  std::string text; ///< a fusion or a program
  CompileOptions options;
  bool isGraphed = false;
  TransferMeans means = {};
  bool isAuto = false; ///< `auto`: what is not given is to be chosen, the way to issue included
};

/// The row that `name[;key=value]...` stands for: matmul, pieces, gather, beside, auto or a
/// schedule, with protocol, chunks (a rank's block), taper, wave, streams, transfers, copies and
/// signals.
/// BadInput says what is not understood.
Result<GatherRow> makeGatherRow(const std::string &name, const GatherShape &shape, DType dtype,
                                int64_t ranks, bool isGraphed);

} // namespace braid
