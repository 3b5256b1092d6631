//===- api/bench/reduction_bench.h - matmul-reduce-scatter and matmul-all-reduce --------------===//
//
// C[m, n] = the sum over ranks of A[m, k] · B[k, n]: each rank has its own share k of what is
// contracted. It keeps the sum of m / ranks rows (reduce-scatter), or of all (all-reduce).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/operation.h"

namespace braid {

Operation matmulReduceScatter();
Operation matmulAllReduce();

} // namespace braid
