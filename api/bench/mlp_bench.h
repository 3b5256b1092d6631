//===- api/bench/mlp_bench.h - mlp, an operation of the benchmark -----------------------------===//
//
// A transformer's MLP with tensor and sequence parallelism. Each rank has m / ranks rows of X[m, n]
// and k columns of what is between: Y = gelu_tanh(X · W1) · W2, with W1[n, k] and W2[k, n] of each
// rank; it keeps m / ranks rows of the sum over ranks.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/operation.h"

namespace braid {

Operation mlp();

} // namespace braid
