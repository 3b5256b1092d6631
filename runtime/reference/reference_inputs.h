//===- runtime/reference/reference_inputs.h - inputs that keep results exact ------------------===//
//
// bf16 holds integers exactly up to 256, so sums over thousands of elements have to stay below that
// in any order of adding. Inputs are therefore sparse where it matters:
//  * The first operand of a GEMM of two inputs has one mark in every row, or one in every device's
//    part of the row. The second operand is dense: weights. So an element of the result is one mark
//    times a weight, or one such product from every device. It shows which mark it comes from; and
//    any element of the first operand that is off by one changes all columns.
//  * The second operand of any other GEMM has one or few marks of 1 or -1 in every column, and one
//    for every device where partial results are summed. So values hardly grow from GEMM to GEMM.
//  * All other inputs are dense, with a mark in every element.
// A bound on every tensor's values and partial sums decides the size of marks and their number in a
// column: the richest choice is taken with which the types hold them all.
//
// gelu and silu of most numbers are not exact in any type. At 0 they are 0; far from 0 they are the
// number itself, or 0 if it is negative. So what they are applied to counts in units of a large
// power of two, and is 0 or far from 0. A later second operand divides by that power.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_pattern.h"

namespace braid::reference {

struct Inputs {
  std::vector<Pattern> patterns; ///< one for each input
  std::string misfit;            ///< the part that cannot be exact, for a message; "" if all can

  Inputs(const Graph &graph, uint64_t seed);
  /// The pattern of a tensor that is an input and is read along these lines; or null.
  const Pattern *along(const Tensor &tensor, const Lines &lines) const;
};

} // namespace braid::reference
