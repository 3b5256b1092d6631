//===- runtime/reference/reference_function_pattern.h - inputs of pointwise functions ---------===//
//
// gelu and silu of most numbers are no numbers that an element type holds, and libraries differ in
// the last bit of them. Of 0 they are 0; of what is far from 0 they are the number itself, or 0 if
// it is negative, exactly and whoever computes them. So where a fusion has pointwise nodes, all its
// values are small integers times a power of two, its unit, and the unit of what a function is
// applied to is large: every value there is 0 or far from 0.
//
// First operands hold 1, -1, 2 and -2, drawn for every element, iteration and input. A column of a
// second operand has a few entries of 1 or -1, drawn, too, times what makes the unit of the result;
// and a later second operand takes the unit back. So a value is a sum of few signs and twos: wrong
// rows, blocks, ranks, iterations or functions give another one in about every second element, and
// no tensor has only a few. What is contracted over devices has entries for every one of them.
//
//===-------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/reference/reference_pattern.h"

namespace braid::reference {

/// 1, -1, 2 and -2, drawn for every element.
class DrawnPattern final : public InputPattern {
public:
  /// `rowWidth` divides the elements.
  DrawnPattern(const Tensor &tensor, int64_t rowWidth, uint64_t salt, int exponent);

  int64_t rowWidth() const override { return rowWidth_; }
  void row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const override;
  void whole(uint32_t iteration, Sink sink) const override;
  void part(uint32_t iteration, int64_t rank, Sink sink) const override;

private:
  int8_t at(uint32_t iteration, int64_t global) const;

  int64_t rowWidth_;
  uint64_t salt_;
};

/// `entries` of 1 or -1 in every column and shard of a second operand.
class FewEntriesPattern final : public InputPattern {
public:
  FewEntriesPattern(const Tensor &tensor, const Gemm &consumer, int64_t entries, uint64_t salt,
                    int exponent);
  void whole(uint32_t iteration, Sink sink) const override;

private:
  Gemm consumer_;
  int64_t entries_;
  int64_t apart_; ///< entries of a column; neighbouring columns begin at neighbouring places
  uint64_t salt_;
};

/// 1 or -1 in every element.
class SignPattern final : public InputPattern {
public:
  SignPattern(const Tensor &tensor, uint64_t salt, int exponent)
      : InputPattern(tensor.placement, exponent), salt_(salt) {}
  void whole(uint32_t iteration, Sink sink) const override;

private:
  uint64_t salt_;
};

/// Below this a function's argument is not far from 0: 2^7, or 2^10 where the function is computed
/// in f64. 2^5 where it is rounded to f16, which holds nothing between 0 and what a function is far
/// below 0, or that times all that f16 holds.
int farExponent(DType dtype);

/// One pattern for each input of a fusion that has pointwise nodes.
std::vector<std::unique_ptr<InputPattern>> makeFunctionPatterns(const Graph &graph, uint64_t seed);

} // namespace braid::reference
