//===- backends/cuda/gemm/fixed_algorithm.h - one algorithm for every number of rows ----------===//
//
// For reproducible results, row i of a GEMM must depend neither on the number of rows that are
// multiplied together nor on timing. A kernel adds the products of an element in an order that is
// determined by its tile and its instruction, unless it splits K. So all GEMMs that differ only in
// M use one kernel without split-K: the first in the library's list for kRowsOfList rows that
// accepts every tested M. Nothing is measured, and no earlier measurement is read.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"

namespace braid {

/// Returns `shape` without the properties that must not matter: M, overlap, and alignment of
/// addresses beyond that of rows. A kind is aligned if the length of every row is a multiple of
/// kGemmAlignment, so that aligned operands have aligned ranges of rows.
GemmShape kindOf(GemmShape shape);

/// Returns "bf16 GEMMs with N = 8192 and K = 4096", with the kind's other properties.
std::string nameOfKind(const GemmShape &kind);

/// Returns the algorithm of a kind, which is a function of GPU model and library version. Fails
/// with Unsupported if no algorithm accepts every tested M. LtGemm::check() tells whether it
/// accepts another M.
Result<LtGemm::Algorithm> fixedAlgorithm(const CublasLt &library, cublasLtHandle_t handle,
                                         const GemmShape &kind);

} // namespace braid
