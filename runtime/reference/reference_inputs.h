//===- runtime/reference/reference_inputs.h - inputs that keep results exact ------------------===//
//
// bf16 holds integers exactly up to 256, so sums over thousands of elements have to stay below that
// in any order of adding. Inputs are therefore sparse where it matters:
//  * The first operand of a GEMM of two inputs has one mark in every row, or one in every device's
//    part of the row. The second operand is dense: weights. So an element of the result is a mark
//    times a weight, or one such product from every device. It shows which mark it comes from, and
//    every element of the first operand that is off by one, wherever it is, changes all columns.
//  * The second operand of any other GEMM has one or few marks of 1 or -1 in every column, and one
//    for every device where partial results are summed. So values do not grow from GEMM to GEMM.
//  * All other inputs are dense, with a mark in every element.
// How large marks may be, and how many of them a column may have, follows from a bound of every
// value that bounds() computes: the richest choice is taken with which all types hold all values.
//
// gelu and silu of most numbers are not exact in any type. At 0 they are 0; far from 0 they are the
// number itself, or 0 if it is negative. So what they are applied to counts in units of a large
// power of two, and is 0 or far from 0. A later second operand divides by that power.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_pattern.h"

namespace braid::reference {

/// Below this a function's argument is not far from 0: 2^7, or 2^10 where the function is computed
/// in f64. 2^5 where it is rounded to f16, which holds nothing between 0 and what a function is far
/// below 0, or that times all that f16 holds.
int farExponent(DType dtype);

/// The patterns of all inputs of a fusion.
class Inputs {
public:
  /// `graph` outlives this.
  Inputs(const Graph &graph, uint64_t seed);

  const Pattern &operator[](size_t input) const { return patterns_[input]; }
  /// A bound of a tensor's magnitudes and, of a GEMM, of all partial sums; in units of the tensor.
  double bound(size_t tensor) const { return bounds_[tensor]; }

private:
  /// What an input is for; the first of these that applies.
  enum class Role { First, Second, Bias, Pointwise };

  void findWeights();
  void findUnits();
  bool wantUnits();
  void makePattern(size_t input);
  void makeFirst(Pattern &pattern, size_t tensor, const Gemm &consumer) const;
  void makeSecond(Pattern &pattern, size_t tensor, const Gemm &consumer) const;
  void chooseRanges();
  bool fitsWith(int64_t mark, int64_t weight);
  bool halveEntries();
  double boundOf(const Gemm &gemm) const;
  double boundOf(const Function &function) const;
  double lineBound(size_t tensor, const Lines &lines) const;
  bool isHeld(DType dtype, size_t tensor) const;

  const Graph &graph_;
  std::vector<Pattern> patterns_;
  std::vector<Role> roles_;
  // By tensor:
  std::vector<bool> isMarked_, isWeights_; ///< operands of GEMMs of two inputs
  std::vector<int> wanted_, units_;        ///< exponents of two
  std::vector<double> bounds_;
};

} // namespace braid::reference
