//===- runtime/reference/reference_inputs.cpp - generates inputs that keep results exact ------===//
#include "runtime/reference/reference_inputs.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/split_mix.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::reference {

namespace {

using Kind = Pattern::Kind;

/// Candidates for the largest mark. They are tried in descending order, because a larger one allows
/// more distinct marks. The smallest mark is more than half of the largest, and the number of
/// distinct marks is prime.
constexpr int64_t kMarks[] = {121, 85, 61, 33, 21, 13, 5, 3, 1};

/// Magnitudes of at least this power of two are far from 0. gelu and silu are computed in f64 for
/// f64 elements, else in f32. f16 has a small range, but its results at -2^5 already round to 0.
int farExponent(DType dtype) { return dtype == DType::F64 ? 10 : dtype == DType::F16 ? 5 : 7; }

/// Returns the number of devices that store or compute parts of a GEMM's depth.
int64_t partsOf(const Gemm &gemm) {
  return std::max({gemm.shards, gemm.rows.devices, gemm.columns.devices});
}

//===----------------------------------------------------------------------------------------===//
// Kinds of inputs
//===----------------------------------------------------------------------------------------===//

bool isFirstOperand(const Graph &graph, size_t tensor) {
  return llvm::any_of(graph.gemms, [&](const Gemm &gemm) { return gemm.first == tensor; });
}

bool isArgument(const Graph &graph, size_t tensor) {
  return llvm::any_of(graph.functions, [&](const Function &function) {
    return function.function && llvm::is_contained(function.operands, tensor);
  });
}

/// Returns true for an input that is used only as the second operand of GEMMs of two inputs.
bool isWeights(const Graph &graph, size_t tensor) {
  const auto allows = [&](const Gemm &gemm) {
    return gemm.bias != tensor && (gemm.second != tensor || graph.tensors[gemm.first].input);
  };
  return graph.tensors[tensor].input && llvm::all_of(graph.gemms, allows) &&
         !isFirstOperand(graph, tensor) && !isArgument(graph, tensor);
}

/// Makes the pattern of a first operand. Every element must be a mark, unless the second operands
/// of all its GEMMs are weights, which make the products dense.
Pattern makeFirst(const Graph &graph, size_t tensor, const Gemm &consumer) {
  int64_t segments = 1;
  for (const Gemm &gemm : graph.gemms)
    if (gemm.first == tensor)
      segments = std::max(segments, isWeights(graph, gemm.second) ? partsOf(gemm) : gemm.depth());
  for (const Function &function : graph.functions)
    if (function.is(Function::Exact::Product) && llvm::is_contained(function.operands, tensor))
      segments = consumer.depth();
  return {Kind::Marks, consumer.rows, segments, segments};
}

/// Makes the pattern of a second operand. If devices split the depth, each column has one mark in
/// each device's part, so that no partial result is zero. Otherwise, the marks of all columns
/// together select every element of a row of the first operand.
Pattern makeSecond(const Graph &graph, size_t tensor, const Gemm &consumer) {
  const int64_t depth = consumer.depth(), columns = consumer.columns.placement.localElements();
  if (isWeights(graph, tensor))
    return {Kind::Weights, consumer.columns, partsOf(consumer), depth};
  int64_t segments = partsOf(consumer);
  if (segments == 1)
    segments = (depth + columns - 1) / columns;
  while (depth % segments != 0)
    ++segments;
  return {Kind::Selection, consumer.columns, segments, segments};
}

Pattern makePattern(const Graph &graph, size_t tensor) {
  for (const Gemm &gemm : graph.gemms)
    if (gemm.first == tensor)
      return makeFirst(graph, tensor, gemm);
  for (const Gemm &gemm : graph.gemms)
    if (gemm.second == tensor)
      return makeSecond(graph, tensor, gemm);
  const Lines lines = graph.tensors[tensor].linesAlong(graph.tensors[tensor].global.size() - 1, 1);
  return {Kind::Dense, lines, lines.depth, lines.depth};
}

//===----------------------------------------------------------------------------------------===//
// Value ranges
//===----------------------------------------------------------------------------------------===//

/// A bound on values, which are integers of magnitude up to `most`, times 2^unit.
struct Bound {
  double most = 0;
  int unit = 0;

  Bound operator*(const Bound &other) const { return {most * other.most, unit + other.unit}; }
  Bound operator+(const Bound &other) const {
    const int common = std::min(unit, other.unit);
    return {std::ldexp(most, unit - common) + std::ldexp(other.most, other.unit - common), common};
  }
  bool isHeldBy(DType dtype) const {
    const bool isInRange = dtype != DType::F16 || std::ldexp(most, unit) <= 65504;
    return isInRange && most <= std::ldexp(1.0, digitsOf(dtype));
  }
};

/// Chooses the ranges of all inputs so that no value is ever rounded.
class Chooser {
public:
  Chooser(const Graph &graph, Inputs &inputs)
      : graph_(graph), inputs_(inputs), wanted_(graph.tensors.size()), bounds_(wanted_.size()) {
    while (wantUnits()) {
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      inputs_.patterns[i].exponent = wanted_[graph_.inputs[i]];
    for (size_t i = 0; i < bounds_.size(); ++i)
      isFree_.push_back(graph_.tensors[i].input && !isFirstOperand(graph_, i) &&
                        !isArgument(graph_, i));
  }

  /// Selects the most diverse choice that fits, or the least diverse choice if none fits.
  void choose() {
    do {
      for (int64_t weight : {2, 1})
        for (int64_t mark : kMarks)
          if (inputs_.misfit = misfitWith(mark, weight); inputs_.misfit.empty())
            return;
    } while (halveEntries());
  }

private:
  /// Propagates the units that functions require of their operands. Returns false if nothing
  /// changes.
  bool wantUnits() {
    bool isChanged = false;
    const auto want = [&](size_t tensor, int exponent) {
      isChanged |= wanted_[tensor] < exponent;
      wanted_[tensor] = std::max(wanted_[tensor], exponent);
    };
    for (const Function &function : llvm::reverse(graph_.functions)) {
      const size_t first = function.operands.front(), last = function.operands.back();
      const int far = function.isFar() ? farExponent(graph_.tensors[function.result].dtype) : 0;
      want(first, std::max(wanted_[function.result], far));
      if (!function.is(Function::Exact::Product))
        want(function.result, wanted_[first]);
      if (!function.is(Function::Exact::Sum))
        continue;
      want(last, wanted_[first]);
      want(first, wanted_[last]);
    }
    return isChanged;
  }

  std::string misfitWith(int64_t mark, int64_t weight) {
    for (Pattern &pattern : inputs_.patterns) {
      pattern.high = pattern.kind == Kind::Weights     ? weight
                     : pattern.kind == Kind::Selection ? 1
                                                       : mark;
      pattern.low = pattern.high / 2 + 1;
    }
    for (size_t i = 0; i < bounds_.size(); ++i) {
      const Tensor &tensor = graph_.tensors[i];
      const Gemm *gemm = tensor.gemm ? &graph_.gemms[*tensor.gemm] : nullptr;
      const Function *function = tensor.function ? &graph_.functions[*tensor.function] : nullptr;
      bounds_[i] = gemm       ? boundOf(graph_.gemmsOf(tensor))
                   : function ? boundOf(*function)
                              : boundOf(tensor);
      if (function && function->isFar() && bounds_[i].unit < farExponent(tensor.dtype))
        return fmt::format("{}: cannot verify %{}: expected the operands of '{}' to be multiples "
                           "of {}, got multiples of {}",
                           tensor.place, tensor.name, keyword(*function->function),
                           std::ldexp(1.0, farExponent(tensor.dtype)),
                           std::ldexp(1.0, bounds_[i].unit));
      if (gemm && gemm->shards > 1 && !bounds_[i].isHeldBy(gemm->partial))
        return misfitOf(tensor, "partial results", gemm->partial, bounds_[i]);
      if (!bounds_[i].isHeldBy(tensor.dtype))
        return misfitOf(tensor, "values", tensor.dtype, bounds_[i]);
    }
    return "";
  }

  static std::string misfitOf(const Tensor &tensor, const char *what, DType dtype, Bound range) {
    const DType wider = range.isHeldBy(DType::F32) ? DType::F32 : DType::F64;
    return fmt::format(
        "{}: cannot verify %{}: expected {} that {} can represent exactly, got values up to {}{}",
        tensor.place, tensor.name, what, name(dtype), std::ldexp(range.most, range.unit),
        range.isHeldBy(wider) ? fmt::format("; {} can represent them", name(wider)) : "");
  }

  Bound boundOf(const Tensor &input) const {
    const Pattern &pattern = inputs_.patterns[*input.input];
    return {pattern.most(), pattern.exponent};
  }

  Bound boundOf(const Function &function) const {
    const Bound first = bounds_[function.operands.front()];
    const Bound last = bounds_[function.operands.back()];
    return function.is(Function::Exact::Sum)       ? first + last
           : function.is(Function::Exact::Product) ? first * last
                                                   : first;
  }

  Bound boundOf(llvm::ArrayRef<Gemm> products) {
    Bound sum = boundOf(products.front());
    for (const Gemm &gemm : products.drop_front())
      sum = sum + boundOf(gemm);
    return sum;
  }

  /// Returns a bound on the values of one product. Either operand may be the sparse one.
  Bound boundOf(const Gemm &gemm) {
    makeUnit(gemm.second, wanted_[gemm.result] - bounds_[gemm.first].unit);
    Bound result = bounds_[gemm.first] * bounds_[gemm.second];
    result.most *= std::min(termsOf(gemm.first, gemm.rows), termsOf(gemm.second, gemm.columns));
    if (!gemm.bias)
      return result;
    makeUnit(*gemm.bias, result.unit);
    return result + bounds_[*gemm.bias];
  }

  /// Sets an input's unit if it is still free: the first GEMM that uses the input determines it.
  void makeUnit(size_t tensor, int exponent) {
    if (!isFree_[tensor])
      return;
    isFree_[tensor] = false;
    bounds_[tensor].unit = inputs_.patterns[*graph_.tensors[tensor].input].exponent = exponent;
  }

  /// Returns the maximum number of nonzero elements in a line of an operand.
  double termsOf(size_t tensor, const Lines &lines) const {
    int64_t terms = lines.depth;
    if (const Pattern *pattern = inputs_.along(graph_.tensors[tensor], lines))
      terms = pattern->entries;
    else if (graph_.tensors[tensor].input)
      terms = std::min(terms, inputs_.patterns[*graph_.tensors[tensor].input].mostAcross());
    return static_cast<double>(terms);
  }

  /// Halves the number of marks per line, in later GEMMs before earlier ones. Returns false if no
  /// line has more than one mark.
  bool halveEntries() {
    for (Pattern &pattern : llvm::reverse(inputs_.patterns)) {
      const bool isThinned = pattern.kind == Kind::Marks || pattern.kind == Kind::Selection;
      if (!isThinned || pattern.entries == 1)
        continue;
      pattern.entries = (pattern.entries + 1) / 2;
      return true;
    }
    return false;
  }

  const Graph &graph_;
  Inputs &inputs_;
  std::vector<int> wanted_; ///< exponents of units, by tensor
  std::vector<Bound> bounds_;
  std::vector<bool> isFree_;
};

} // namespace

Inputs::Inputs(const Graph &graph, uint64_t seed) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    patterns.push_back(makePattern(graph, graph.inputs[i]));
    patterns[i].salt = splitMix(seed) / 2 + 23 * i;
  }
  Chooser(graph, *this).choose();
}

const Pattern *Inputs::along(const Tensor &tensor, const Lines &lines) const {
  if (!tensor.input)
    return nullptr;
  const Lines &own = patterns[*tensor.input].lines;
  const bool isAlong = own.areRows == lines.areRows && own.depth == lines.depth;
  return isAlong ? &patterns[*tensor.input] : nullptr;
}

} // namespace braid::reference
