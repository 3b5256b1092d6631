//===- runtime/reference/reference_inputs.h - generates inputs that keep results exact --------===//
//
// bf16 represents integers exactly up to 256, so sums over thousands of elements must stay below
// that in any order of addition. Inputs are therefore sparse where necessary:
//  * The first operand of a GEMM of two inputs has one mark in every row, or in every device's
//    part of the row. The second operand is dense (weights). So each element of the result is a
//    mark times a weight, or the sum of one such product per device. It identifies its mark, and
//    any element of the first operand that is off by one changes all columns.
//  * The second operand of any other GEMM has one or a few marks of 1 or -1 in every column, and
//    one per device if partial results are summed. Values hardly grow from GEMM to GEMM.
//  * All other inputs are dense, with a mark in every element.
// A bound on the values and partial sums of every tensor determines the magnitude of marks and
// their number in a column: the most diverse choice whose values all types can represent.
//
// gelu and silu of most numbers are not exact in any type. At 0 they are 0; far from 0 they are the
// number itself, or 0 if it is negative. So their operands are multiples of a large power of two,
// and each is 0 or far from 0. A later second operand divides by that power.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_pattern.h"

namespace braid::reference {

struct Inputs {
  std::vector<Pattern> patterns; ///< one per input
  /// The part that cannot be exact, for a message; empty if there is none.
  std::string misfit;

  Inputs(const Graph &graph, uint64_t seed);
  /// Returns the pattern of a tensor that is an input read along these lines, or null.
  const Pattern *along(const Tensor &tensor, const Lines &lines) const;
};

} // namespace braid::reference
