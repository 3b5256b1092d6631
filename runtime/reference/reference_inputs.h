//===- runtime/reference/reference_inputs.h - generates inputs that keep results exact --------===//
//
// bf16 represents integers exactly up to 256, so sums over thousands of elements must not exceed
// 256 in any order of addition. Inputs are therefore sparse where necessary:
//  * The first operand of a GEMM of two inputs has one nonzero element, called a mark, in every
//    row, or in every device's part of the row. The second operand is dense (weights). Each element
//    of the result is thus a mark times a weight, or a sum of these products, one per device. This
//    identifies the marks, and an off-by-one error in any element of the first operand changes all
//    columns.
//  * The second operand of any other GEMM has one or a few marks of 1 or -1 in every column, and
//    one per device if partial results are summed. Values hardly grow from GEMM to GEMM.
//  * All other inputs are dense: every element is a mark.
// A bound on the values and partial sums of every tensor determines the magnitude of the marks and
// their number per column: the most diverse choice that all element types represent exactly.
//
// The gelu and silu of most numbers are not exact in any type. Both map 0 to 0, and a number far
// from 0 to itself, or to 0 if it is negative. Their operands are therefore multiples of a large
// power of two, either 0 or far from 0. The second operand of a later GEMM divides by this power.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_pattern.h"

namespace braid::reference {

struct Inputs {
  std::vector<Pattern> patterns; ///< one per input
  /// Describes the values that cannot be exact, for a diagnostic; empty if there are none.
  std::string misfit;

  Inputs(const Graph &graph, uint64_t seed);
  /// Returns the pattern of `tensor` if it is an input that is read along `lines`, else null.
  const Pattern *along(const Tensor &tensor, const Lines &lines) const;
};

} // namespace braid::reference
