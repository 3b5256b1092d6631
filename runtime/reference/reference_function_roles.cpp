//===- runtime/reference/reference_function_roles.cpp - units and bounds of pointwise nodes ---===//
#include "runtime/reference/reference_draw.h"
#include "runtime/reference/reference_function_pattern.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid::reference {

namespace {

constexpr int64_t kDrawnBound = 2;   ///< of first operands
constexpr int64_t kExactBound = 256; ///< integers up to this are held by every element type
constexpr int64_t kMostEntries = 4;  ///< of a column and shard

class FunctionPatternMaker {
public:
  FunctionPatternMaker(const Graph &graph, uint64_t seed)
      : graph_(graph), seed_(seed), wanted_(graph.tensors.size()), unit_(graph.tensors.size()),
        bound_(graph.tensors.size(), kDrawnBound), patterns_(graph.inputs.size()) {}

  std::vector<std::unique_ptr<InputPattern>> make() {
    while (wantUnits()) {
    }
    for (size_t i = 0; i < graph_.tensors.size(); ++i)
      if (graph_.tensors[i].gemm)
        follow(graph_.gemms[*graph_.tensors[i].gemm]);
      else if (graph_.tensors[i].function)
        follow(graph_.functions[*graph_.tensors[i].function]);
      else
        makeFirst(i);
    for (size_t input : graph_.inputs)
      if (!pattern(input)) // an operand of functions alone, or of nothing
        makeDrawn(input, graph_.tensors[input].global.back());
    return std::move(patterns_);
  }

private:
  std::unique_ptr<InputPattern> &pattern(size_t tensor) {
    return patterns_[*graph_.tensors[tensor].input];
  }
  uint64_t salt(size_t tensor) const {
    return splitMix(seed_) / 2 + 17 * *graph_.tensors[tensor].input;
  }

  //===- Units, as exponents of two -----------------------------------------------------------===//

  /// One round of what functions want of their operands; false if that changes nothing.
  bool wantUnits() {
    bool changed = false;
    auto want = [&](size_t tensor, int exponent) {
      changed |= wanted_[tensor] < exponent;
      wanted_[tensor] = std::max(wanted_[tensor], exponent);
    };
    for (const Function &function : llvm::reverse(graph_.functions)) {
      const size_t first = function.operands.front(), last = function.operands.back();
      int exponent = wanted_[function.result];
      if (function.isFar())
        exponent = std::max(exponent, farExponent(graph_.tensors[function.result].dtype));
      want(first, exponent);
      if (function.function && !isBinary(*function.function))
        want(function.result, wanted_[first]);
      if (function.function != PointwiseFunction::Add)
        continue;
      want(last, wanted_[first]);
      want(first, wanted_[last]);
    }
    return changed;
  }

  //===- Tensors, in the order of the fusion --------------------------------------------------===//

  void makeFirst(size_t tensor) {
    const auto consumer =
        llvm::find_if(graph_.gemms, [&](const Gemm &gemm) { return gemm.first == tensor; });
    unit_[tensor] = wanted_[tensor];
    if (consumer != graph_.gemms.end())
      makeDrawn(tensor, consumer->depth);
  }

  void makeDrawn(size_t tensor, int64_t rowWidth) {
    pattern(tensor) = std::make_unique<DrawnPattern>(graph_.tensors[tensor], rowWidth, salt(tensor),
                                                     unit_[tensor]);
  }

  /// The second operand makes the unit of the result; the bias, if any, is one of these.
  void follow(const Gemm &gemm) {
    const int exponent = wanted_[gemm.result] - unit_[gemm.first];
    const int64_t entries = entriesOf(gemm);
    const Tensor &second = graph_.tensors[gemm.second];
    if (second.input && !pattern(gemm.second)) {
      pattern(gemm.second) =
          std::make_unique<FewEntriesPattern>(second, gemm, entries, salt(gemm.second), exponent);
      unit_[gemm.second] = exponent;
    }
    unit_[gemm.result] = unit_[gemm.first] + unit_[gemm.second];
    bound_[gemm.result] = bound_[gemm.first] * entries * gemm.shards + (gemm.bias ? 1 : 0);
    if (!gemm.bias || !graph_.tensors[*gemm.bias].input || pattern(*gemm.bias))
      return;
    pattern(*gemm.bias) = std::make_unique<SignPattern>(graph_.tensors[*gemm.bias],
                                                        salt(*gemm.bias), unit_[gemm.result]);
  }

  /// So many that every element of the first operand is read, if sums stay exact.
  int64_t entriesOf(const Gemm &gemm) const {
    const int64_t columns = gemm.columnPlacement.localElements();
    const int64_t reading = gemm.shards > 1 ? kMostEntries : gemm.depth / columns;
    const int64_t exact = kExactBound / (bound_[gemm.first] * gemm.shards);
    // A product of two such results is exact, too.
    const int64_t most = gemm.shards > 1 ? kMostEntries : 2;
    return std::clamp<int64_t>(std::min({reading, exact, most}), 1,
                               std::max<int64_t>(1, gemm.shardDepth()));
  }

  void follow(const Function &function) {
    const size_t first = function.operands.front(), last = function.operands.back();
    unit_[function.result] = unit_[first];
    bound_[function.result] = bound_[first];
    if (function.function == PointwiseFunction::Multiply) {
      unit_[function.result] += unit_[last];
      bound_[function.result] *= bound_[last];
    } else if (function.function == PointwiseFunction::Add) {
      bound_[function.result] += bound_[last];
    }
  }

  const Graph &graph_;
  uint64_t seed_;
  std::vector<int> wanted_, unit_; ///< by tensor
  std::vector<int64_t> bound_;     ///< of a tensor's values, in units
  std::vector<std::unique_ptr<InputPattern>> patterns_;
};

} // namespace

std::vector<std::unique_ptr<InputPattern>> makeFunctionPatterns(const Graph &graph, uint64_t seed) {
  return FunctionPatternMaker(graph, seed).make();
}

} // namespace braid::reference
