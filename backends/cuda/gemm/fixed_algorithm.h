//===- backends/cuda/gemm/fixed_algorithm.h - one algorithm for every number of rows ----------===//
//
// For reproducible results, row i of a GEMM must not depend on timing or on the number of rows that
// are multiplied together. A kernel that does not split K adds up each element's products in an
// order determined by the kernel's tile and instruction. All GEMMs that differ only in M therefore
// use one kernel without split-K: the first in the library's list for kRowsOfList rows that accepts
// every tested M. No algorithm is measured, and cached measurements are ignored.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

namespace braid {

/// Returns the kind of a GEMM: `shape` without the properties that must not affect results (M,
/// overlap, and any address alignment beyond that of rows). A kind is aligned if every row's size
/// in bytes is a multiple of kGemmAlignment, so that all rows of an aligned operand are aligned.
GemmShape kindOf(GemmShape shape);

/// Returns text such as "bf16 GEMMs with N = 8192 and K = 4096", followed by any other properties.
std::string nameOfKind(const GemmShape &kind);

/// Returns the algorithm for a kind, which depends only on the GPU model and the library version.
/// Fails with Unsupported if no algorithm accepts every tested M. LtGemm::check() tests whether the
/// algorithm accepts another M.
Result<LtGemm::Algorithm> fixedAlgorithm(const CublasLt &library, cublasLtHandle_t handle,
                                         const GemmShape &kind);

} // namespace braid
