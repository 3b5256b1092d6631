//===- ir/pointwise.h - functions that are applied element by element -------------------------===//
//
// Both languages have them: a node of a fusion is one function, a node of a program a chain of
// them. They are computed in f32 (f64 for f64), and rounded where a tensor is stored, not between.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/pointwise_function.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace braid {

llvm::StringRef keyword(PointwiseFunction function);
std::optional<PointwiseFunction> pointwiseFromKeyword(llvm::StringRef word);
std::vector<std::string> pointwiseKeywords();
/// 1 or 2.
unsigned operandCount(PointwiseFunction function);
/// A function of two operands; all of them commute, bit by bit.
inline bool isBinary(PointwiseFunction function) { return operandCount(function) == 2; }

/// Functions of one node of a program: what a kernel takes as its arguments.
inline constexpr size_t kMostPointwiseSteps = 8;

/// One function of a chain: of what the chain has come to, and of another operand if it takes two.
/// Operand is whatever holds one: a value, a number..
template <class Operand> struct PointwiseStep {
  PointwiseFunction function;
  Operand operand;
  auto operator<=>(const PointwiseStep &) const = default;
};

/// "multiply(silu(%U), %V)"; `textOf` writes an operand.
template <class Chain, class First, class TextFn>
std::string strChain(First first, const Chain &chain, TextFn textOf) {
  std::string text = textOf(first);
  for (const auto &step : chain)
    text = keyword(step.function).str() + "(" + text +
           (isBinary(step.function) ? ", " + textOf(step.operand) : "") + ")";
  return text;
}

} // namespace braid
