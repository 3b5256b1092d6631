//===- runtime/reference/reference_inputs.cpp - inputs that keep results exact ----------------===//
#include "runtime/reference/reference_inputs.h"

#include "runtime/split_mix.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace braid::reference {

namespace {

/// The greatest mark, from the richest choice on. The least one is more than half of that, and the
/// number of marks in between is prime.
constexpr int64_t kMarks[] = {121, 85, 61, 33, 21, 13, 5, 3, 1};

/// Biases are small beside marks.
constexpr int64_t kMarksPerBias = 10;

/// Integers up to this power of two are exact.
int digitsOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return 8;
  case DType::F16:
    return 11;
  case DType::F32:
    return 24;
  case DType::F64:
    break;
  }
  return 53;
}

/// How many devices hold or compute parts of a GEMM's depth.
int64_t partsOf(const Gemm &gemm) {
  return std::max({gemm.shards, gemm.rows.devices, gemm.columns.devices});
}

} // namespace

int farExponent(DType dtype) { return dtype == DType::F64 ? 10 : dtype == DType::F16 ? 5 : 7; }

Inputs::Inputs(const Graph &graph, uint64_t seed)
    : graph_(graph), patterns_(graph.inputs.size()), roles_(graph.inputs.size()),
      wanted_(graph.tensors.size()), units_(graph.tensors.size()), bounds_(graph.tensors.size()) {
  findWeights();
  findUnits();
  for (size_t i = 0; i < patterns_.size(); ++i) {
    makePattern(i);
    patterns_[i].exponent = units_[graph.inputs[i]];
    patterns_[i].salt = splitMix(seed) / 2 + 23 * i;
  }
  chooseRanges();
}

//===----------------------------------------------------------------------------------------===//
// What each input is for
//===----------------------------------------------------------------------------------------===//

/// Marks and weights come in pairs: an operand that does not qualify spoils the other one.
void Inputs::findWeights() {
  for (const Tensor &tensor : graph_.tensors)
    isMarked_.push_back(tensor.input.has_value());
  isWeights_ = isMarked_;
  for (const Gemm &gemm : graph_.gemms) {
    isWeights_[gemm.first] = isMarked_[gemm.second] = false;
    if (gemm.bias)
      isWeights_[*gemm.bias] = isMarked_[*gemm.bias] = false;
  }
  for (const Function &function : graph_.functions)
    for (size_t operand : function.operands) {
      isWeights_[operand] = isWeights_[operand] && !function.function;
      isMarked_[operand] = isMarked_[operand] && !function.is(PointwiseFunction::Multiply);
    }
  for (bool isStable = false; !isStable;) {
    isStable = true;
    for (const Gemm &gemm : graph_.gemms)
      if (isMarked_[gemm.first] != isWeights_[gemm.second])
        isMarked_[gemm.first] = isWeights_[gemm.second] = isStable = false;
  }
}

void Inputs::makePattern(size_t input) {
  const size_t tensor = graph_.inputs[input];
  const auto gemmWith = [&](auto operand) {
    return llvm::find_if(graph_.gemms, [&](const Gemm &gemm) { return gemm.*operand == tensor; });
  };
  const auto end = graph_.gemms.end();
  if (const auto consumer = gemmWith(&Gemm::first); consumer != end) {
    roles_[input] = Role::First;
    return makeFirst(patterns_[input], tensor, *consumer);
  }
  if (const auto consumer = gemmWith(&Gemm::second); consumer != end) {
    roles_[input] = Role::Second;
    return makeSecond(patterns_[input], tensor, *consumer);
  }
  roles_[input] = gemmWith(&Gemm::bias) != end ? Role::Bias : Role::Pointwise;
  Pattern &pattern = patterns_[input];
  pattern.lines = graph_.tensors[tensor].linesAlong(graph_.tensors[tensor].global.size() - 1, 1);
  pattern.blocks = pattern.lines.placement;
  pattern.segments = pattern.entries = pattern.lines.depth;
}

void Inputs::makeFirst(Pattern &pattern, size_t tensor, const Gemm &consumer) const {
  pattern.lines = consumer.rows;
  pattern.blocks = consumer.rowBlocks;
  if (!isMarked_[tensor])
    pattern.segments = consumer.depth();
  for (const Gemm &gemm : graph_.gemms)
    if (gemm.first == tensor)
      pattern.segments = std::max(pattern.segments, partsOf(gemm));
  pattern.entries = pattern.segments;
}

/// Where there are fewer columns than elements along a device's part of the depth, every column has
/// so many marks that together they read all elements.
void Inputs::makeSecond(Pattern &pattern, size_t tensor, const Gemm &consumer) const {
  pattern.lines = consumer.columns;
  pattern.blocks = consumer.columnBlocks;
  pattern.isWeights = isWeights_[tensor];
  const int64_t columns = pattern.blocks.localElements();
  const int64_t depth = consumer.depth() / partsOf(consumer);
  int64_t reading = (depth + columns - 1) / columns;
  while (depth % reading != 0)
    ++reading;
  pattern.segments = pattern.entries = partsOf(consumer) * reading;
}

//===----------------------------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------------------------===//

/// One round of what functions want of their operands; false if that changes nothing.
bool Inputs::wantUnits() {
  bool isChanged = false;
  const auto want = [&](size_t tensor, int exponent) {
    isChanged |= wanted_[tensor] < exponent;
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
    if (!function.is(PointwiseFunction::Add))
      continue;
    want(last, wanted_[first]);
    want(first, wanted_[last]);
  }
  return isChanged;
}

/// A GEMM's second operand makes the unit of the result, unless its own unit matters elsewhere.
void Inputs::findUnits() {
  while (wantUnits()) {
  }
  std::vector<bool> isFree(graph_.tensors.size());
  for (size_t input : graph_.inputs)
    isFree[input] = true;
  for (const Gemm &gemm : graph_.gemms)
    isFree[gemm.first] = false;
  for (const Function &function : graph_.functions)
    for (size_t operand : function.operands)
      isFree[operand] = isFree[operand] && !function.function;
  const auto give = [&](size_t tensor, int exponent) {
    if (isFree[tensor])
      units_[tensor] = exponent;
    isFree[tensor] = false;
  };
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    const Tensor &tensor = graph_.tensors[i];
    if (tensor.gemm) {
      const Gemm &gemm = graph_.gemms[*tensor.gemm];
      give(gemm.second, wanted_[i] - units_[gemm.first]);
      units_[i] = units_[gemm.first] + units_[gemm.second];
      if (gemm.bias)
        give(*gemm.bias, units_[i]);
    } else if (tensor.function) {
      const Function &function = graph_.functions[*tensor.function];
      const int first = units_[function.operands.front()], last = units_[function.operands.back()];
      units_[i] = function.is(PointwiseFunction::Multiply) ? first + last : std::min(first, last);
    } else {
      units_[i] = wanted_[i];
    }
  }
}

//===----------------------------------------------------------------------------------------===//
// Ranges of values
//===----------------------------------------------------------------------------------------===//

/// If nothing fits, the poorest choice stays, and the comparison says which value is not exact.
void Inputs::chooseRanges() {
  do {
    for (int64_t weight : {2, 1})
      for (int64_t mark : kMarks)
        if (fitsWith(mark, weight))
          return;
  } while (halveEntries());
}

bool Inputs::fitsWith(int64_t mark, int64_t weight) {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern &pattern = patterns_[i];
    pattern.high = pattern.isWeights ? weight : roles_[i] == Role::Second ? 1 : mark;
    pattern.low = pattern.high / 2 + 1;
    if (roles_[i] != Role::Bias)
      continue;
    pattern.low = 1;
    pattern.high = std::max<int64_t>(1, mark / kMarksPerBias);
  }
  for (size_t i = 0; i < bounds_.size(); ++i) {
    const Tensor &tensor = graph_.tensors[i];
    bounds_[i] = tensor.gemm       ? boundOf(graph_.gemms[*tensor.gemm])
                 : tensor.function ? boundOf(graph_.functions[*tensor.function])
                                   : patterns_[*tensor.input].most();
  }
  for (size_t i = 0; i < bounds_.size(); ++i)
    if (!isHeld(graph_.tensors[i].dtype, i))
      return false;
  return llvm::all_of(graph_.gemms, [&](const Gemm &gemm) {
    return gemm.shards == 1 || isHeld(gemm.partial, gemm.result);
  });
}

/// Later GEMMs lose marks before earlier ones. False if no line has more than one.
bool Inputs::halveEntries() {
  for (size_t i = patterns_.size(); i-- > 0;) {
    Pattern &pattern = patterns_[i];
    const bool isOperand = roles_[i] == Role::First || roles_[i] == Role::Second;
    if (!isOperand || pattern.isWeights || pattern.entries == 1)
      continue;
    pattern.entries = (pattern.entries + 1) / 2;
    return true;
  }
  return false;
}

/// Either operand may be the one whose lines are sparse.
double Inputs::boundOf(const Gemm &gemm) const {
  const double byRows = lineBound(gemm.first, gemm.rows) * bounds_[gemm.second];
  const double byColumns = bounds_[gemm.first] * lineBound(gemm.second, gemm.columns);
  return std::min(byRows, byColumns) + (gemm.bias ? bounds_[*gemm.bias] : 0);
}

double Inputs::boundOf(const Function &function) const {
  const size_t first = function.operands.front(), last = function.operands.back();
  const int unit = units_[function.result];
  if (function.is(PointwiseFunction::Multiply))
    return bounds_[first] * bounds_[last];
  if (function.is(PointwiseFunction::Add))
    return std::ldexp(bounds_[first], units_[first] - unit) +
           std::ldexp(bounds_[last], units_[last] - unit);
  return bounds_[first];
}

/// A bound of the sum of magnitudes along an operand's line.
double Inputs::lineBound(size_t tensor, const Lines &lines) const {
  if (const std::optional<size_t> input = graph_.tensors[tensor].input) {
    const Pattern &pattern = patterns_[*input];
    if (pattern.lines.areRows == lines.areRows && pattern.lines.depth == lines.depth)
      return pattern.mostOfLine();
  }
  return bounds_[tensor] * static_cast<double>(lines.depth);
}

bool Inputs::isHeld(DType dtype, size_t tensor) const {
  const double most = bounds_[tensor];
  const bool isInRange = dtype != DType::F16 || std::ldexp(most, units_[tensor]) <= 65504;
  return isInRange && most <= std::ldexp(1.0, digitsOf(dtype));
}

} // namespace braid::reference
