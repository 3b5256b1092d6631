//===- api/bench/gather_bench.h - gather-matmul, an operation of the benchmark ----------------===//
//
// C[m, n] = A[m, k] · B[k, n]; each rank has m / ranks rows of A, and all of B, of n columns.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/operation.h"

namespace braid {

Operation gatherMatmul();

/// The row that `name[;knob=value]...` stands for: matmul, chunked, gather, uncoupled, auto or a
/// schedule, as Configuration::parse() reads it; `isGraphed`, unless it has a launch mode.
/// BadInput says what is not understood, Unsupported what cannot be had for that shape.
Result<TimedRow> makeGatherRow(const std::string &name, const BenchShape &shape,
                               const BenchTypes &types, int64_t ranks, bool isGraphed);

} // namespace braid
