//===- ir/pointwise.h - functions applied element by element ----------------------------------===//
//
// A pointwise node applies one function in a fusion, and a chain of functions in a program.
// Functions are computed in f32 (f64 for f64 tensors); results are rounded only when stored.
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
/// Returns the number of operands of `function`: 1 or 2.
unsigned operandCount(PointwiseFunction function);
/// True if `function` takes two operands. Swapping them yields bitwise equal results.
inline bool isBinary(PointwiseFunction function) { return operandCount(function) == 2; }

/// Maximum number of functions in one program node. The functions are arguments of its kernel.
inline constexpr size_t kMostPointwiseSteps = 8;

/// One function in a chain. Its operands are the chain's previous value and, if the function is
/// binary, `operand`. Clients choose the operand type, such as `Value *`.
template <class Operand> struct PointwiseStep {
  PointwiseFunction function;
  Operand operand;
  auto operator<=>(const PointwiseStep &) const = default;
};

/// Returns text such as "multiply(silu(%U), %V)"; `textOf` formats an operand.
template <class Chain, class First, class TextFn>
std::string strChain(First first, const Chain &chain, TextFn textOf) {
  std::string text = textOf(first);
  for (const auto &step : chain)
    text = keyword(step.function).str() + "(" + text +
           (isBinary(step.function) ? ", " + textOf(step.operand) : "") + ")";
  return text;
}

} // namespace braid
