//===- tests/mutation/function_mutations.cpp - mistakes in pointwise functions ----------------===//

#include "tests/mutation/mutants.h"
#include "tests/mutation/sites.h"

#include <fmt/format.h>

namespace braid::test {
namespace {

/// Returns the k-th function, counted over all pointwise nodes.
std::pair<PointwiseOp *, size_t> functionAt(Program &program, size_t k) {
  for (const Site &site : sitesOf<PointwiseOp>(program)) {
    auto &op = *llvm::cast<PointwiseOp>(site.op);
    if (k < op.steps.size())
      return {&op, k};
    k -= op.steps.size();
  }
  return {nullptr, 0};
}

/// Omits a function.
SiteText dropFunction(Program &program, size_t k) {
  auto [op, step] = functionAt(program, k);
  if (!op)
    return std::nullopt;
  std::string what = quoted(*op);
  op->steps.erase(op->steps.begin() + static_cast<ptrdiff_t>(step));
  return what + " becomes " + quoted(*op);
}

/// Replaces a function with another one that has the same number of operands.
SiteText changeFunction(Program &program, size_t k) {
  auto [op, step] = functionAt(program, k);
  if (!op)
    return std::nullopt;
  std::string what = quoted(*op);
  PointwiseFunction &function = op->steps[step].function;
  function = isBinary(function) ? (function == PointwiseFunction::Add ? PointwiseFunction::Multiply
                                                                      : PointwiseFunction::Add)
             : function == PointwiseFunction::Relu ? PointwiseFunction::Silu
                                                   : PointwiseFunction::Relu;
  return what + " becomes " + quoted(*op);
}

/// Applies a function twice.
SiteText repeatFunction(Program &program, size_t k) {
  auto [op, step] = functionAt(program, k);
  if (!op)
    return std::nullopt;
  const auto at = op->steps.begin() + static_cast<ptrdiff_t>(step);
  if (op->steps.size() == kMostPointwiseSteps)
    return "";
  op->steps.insert(at, *at);
  return "twice in " + quoted(*op);
}

/// Uses the first of two operands twice.
SiteText repeatOperand(Program &program, size_t k) {
  auto [op, step] = functionAt(program, k);
  if (!op)
    return std::nullopt;
  if (!isBinary(op->steps[step].function))
    return "";
  std::string what = quoted(*op);
  op->steps[step].operand = op->first;
  return what + " becomes " + quoted(*op);
}

} // namespace

llvm::ArrayRef<ProgramMutation> functionMutations() {
  static const ProgramMutation mutations[] = {
      {"drop a function", dropFunction},
      {"change a function", changeFunction},
      {"repeat a function", repeatFunction},
      {"repeat an operand", repeatOperand},
  };
  return mutations;
}

} // namespace braid::test
