//===- runtime/reference/reference_evaluator.cpp - the values of all tensors in one iteration -===//
#include "runtime/reference/reference_evaluator.h"

#include "runtime/reference/reference_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::reference {

namespace {

/// Every element type holds these; most values are of this kind.
bool isSmallInteger(double value) {
  return std::fabs(value) <= 256 && static_cast<double>(static_cast<int>(value)) == value;
}

template <class... Args>
Status cannotVerify(const Tensor &tensor, fmt::format_string<Args...> expected, Args &&...args) {
  return Status(StatusCode::Unsupported,
                fmt::format("{}: cannot verify %{}: expected {}", tensor.place, tensor.name,
                            fmt::format(expected, std::forward<Args>(args)...)));
}

} // namespace

Status Evaluator::read(size_t tensor, int64_t begin, llvm::MutableArrayRef<double> out) {
  const int64_t width = rowWidth(tensor);
  while (!out.empty()) {
    Row &row = rows_[tensor];
    const int64_t index = begin / width, from = begin % width;
    if (row.index != index) {
      row.values.assign(static_cast<size_t>(width), 0.0);
      BRAID_TRY(computeRow(tensor, index, row.values));
      row.index = index;
    }
    const int64_t count = std::min<int64_t>(width - from, static_cast<int64_t>(out.size()));
    std::copy_n(row.values.begin() + from, count, out.begin());
    out = out.drop_front(static_cast<size_t>(count));
    begin += count;
  }
  return Status::ok();
}

/// An input whose lines are interleaved is one row.
int64_t Evaluator::rowWidth(size_t index) const {
  const Tensor &tensor = graph_.tensors[index];
  if (tensor.gemm)
    return graph_.gemms[*tensor.gemm].columnCount();
  if (tensor.function)
    return rowWidth(graph_.functions[*tensor.function].operands.front());
  const Lines &lines = inputs_[*tensor.input].lines;
  return lines.areRows ? lines.depth : tensor.placement.globalElements();
}

Status Evaluator::computeRow(size_t index, int64_t rowIndex, llvm::MutableArrayRef<double> row) {
  const Tensor &tensor = graph_.tensors[index];
  if (tensor.gemm)
    return computeGemmRow(graph_.gemms[*tensor.gemm], rowIndex, row);
  if (tensor.function)
    return computeFunctionRow(graph_.functions[*tensor.function], rowIndex, row);
  const Pattern &pattern = inputs_[*tensor.input];
  const double unit = std::ldexp(1.0, pattern.exponent);
  const int64_t lines = pattern.lines.areRows ? 1 : pattern.lines.placement.globalElements();
  for (int64_t line = 0; line < lines; ++line)
    pattern.line(iteration_, pattern.lines.areRows ? rowIndex : line,
                 [&](int64_t k, int64_t value) {
                   row[k * lines + line] = static_cast<double>(value) * unit;
                 });
  return Status::ok();
}

Status Evaluator::computeFunctionRow(const Function &function, int64_t index,
                                     llvm::MutableArrayRef<double> row) {
  const int64_t begin = index * static_cast<int64_t>(row.size());
  std::vector<double> last(row.size());
  BRAID_TRY(read(function.operands.front(), begin, row));
  BRAID_TRY(read(function.operands.back(), begin, last));
  for (size_t i = 0; i < row.size(); ++i)
    BRAID_TRY(apply(function, row[i], last[i], row[i]));
  const Tensor &result = graph_.tensors[function.result];
  return checkHeld(result, result.dtype, row, "values");
}

/// A function's own rounding cannot be seen: its result is exact, or the comparison is given up.
Status Evaluator::apply(const Function &function, double x, double y, double &result) const {
  const Tensor &tensor = graph_.tensors[function.result];
  const double far = std::ldexp(1.0, farExponent(tensor.dtype));
  if (function.isFar() && x != 0 && std::fabs(x) < far)
    return cannotVerify(tensor,
                        "'{}' of 0, or of {} and more, up or down, where it is exact, got {}",
                        std::string_view(keyword(*function.function)), far, x);
  if (!function.function)
    result = x;
  else if (!isBinary(*function.function))
    result = std::max(x, 0.0);
  else
    result = function.is(PointwiseFunction::Add) ? x + y : x * y;
  return Status::ok();
}

/// Partial results are rounded before they are added, sums once more, so both have to be exact.
Status Evaluator::computeGemmRow(const Gemm &gemm, int64_t index,
                                 llvm::MutableArrayRef<double> row) {
  const Tensor &result = graph_.tensors[gemm.result];
  const double exactBelow = result.dtype == DType::F64 ? 0x1p53 : 0x1p24;
  const double bound = inputs_.bound(gemm.result);
  if (bound > exactBelow)
    return cannotVerify(result, "partial sums up to {}, which are exact in any order, got up to {}",
                        exactBelow, bound);
  std::vector<double> partials(row.size() * static_cast<size_t>(gemm.shards));
  BRAID_TRY(addProducts(gemm, index, partials));
  if (gemm.bias)
    BRAID_TRY(read(*gemm.bias, 0, row));
  if (gemm.shards > 1)
    BRAID_TRY(checkHeld(result, gemm.partial, partials, "partial results"));
  for (size_t begin = 0; begin < partials.size(); begin += row.size())
    for (size_t n = 0; n < row.size(); ++n)
      row[n] += partials[begin + n];
  return checkHeld(result, result.dtype, row, "values");
}

/// Adds a row's product with every device's part of the depth to one row of `partials`.
Status Evaluator::addProducts(const Gemm &gemm, int64_t index,
                              llvm::MutableArrayRef<double> partials) {
  const size_t columns = static_cast<size_t>(gemm.columnCount());
  const auto partialOf = [&](int64_t k) {
    return partials.slice(static_cast<size_t>(k / gemm.shardDepth()) * columns, columns);
  };
  const Pattern *weights = patternOf(gemm.second, gemm.columns);
  if (weights && weights->isWeights) {
    const double unit = std::ldexp(1.0, weights->exponent);
    return forEachNonzero(gemm.first, index, gemm.depth(), [&](int64_t k, double value) {
      weights->addWeights(iteration_, k, value * unit, partialOf(k));
    });
  }
  BRAID_TRY(readSecond(gemm));
  const SparseRows &second = *seconds_[static_cast<size_t>(&gemm - graph_.gemms.data())];
  return forEachNonzero(gemm.first, index, gemm.depth(), [&](int64_t k, double value) {
    const llvm::MutableArrayRef<double> partial = partialOf(k);
    for (const Entry &entry : second[static_cast<size_t>(k)])
      partial[entry.column] += value * entry.value;
  });
}

/// Calls `sink` for elements [row * width, row * width + width) that are not zero.
Status Evaluator::forEachNonzero(size_t tensor, int64_t row, int64_t width, Sink sink) {
  if (graph_.tensors[tensor].input)
    if (const Pattern &pattern = inputs_[*graph_.tensors[tensor].input];
        pattern.lines.areRows && pattern.lines.depth == width) {
      const double unit = std::ldexp(1.0, pattern.exponent);
      pattern.line(iteration_, row,
                   [&](int64_t k, int64_t value) { sink(k, static_cast<double>(value) * unit); });
      return Status::ok();
    }
  std::vector<double> values(static_cast<size_t>(width));
  BRAID_TRY(read(tensor, row * width, values));
  for (size_t k = 0; k < values.size(); ++k)
    if (values[k] != 0)
      sink(static_cast<int64_t>(k), values[k]);
  return Status::ok();
}

Status Evaluator::readSecond(const Gemm &gemm) {
  std::optional<SparseRows> &slot = seconds_[static_cast<size_t>(&gemm - graph_.gemms.data())];
  if (slot)
    return Status::ok();
  SparseRows rows(static_cast<size_t>(gemm.depth()));
  const int64_t columns = gemm.columnCount();
  const Pattern *pattern = patternOf(gemm.second, gemm.columns);
  if (pattern) {
    const double unit = std::ldexp(1.0, pattern->exponent);
    for (int64_t n = 0; n < columns; ++n)
      pattern->line(iteration_, n, [&](int64_t k, int64_t value) {
        rows[static_cast<size_t>(k)].push_back({n, static_cast<double>(value) * unit});
      });
  }
  const int64_t width = gemm.transposed ? gemm.depth() : columns;
  const int64_t height = pattern ? 0 : gemm.transposed ? columns : gemm.depth();
  for (int64_t i = 0; i < height; ++i)
    BRAID_TRY(forEachNonzero(gemm.second, i, width, [&](int64_t j, double value) {
      rows[static_cast<size_t>(gemm.transposed ? j : i)].push_back(
          {gemm.transposed ? i : j, value});
    }));
  slot = std::move(rows);
  return Status::ok();
}

Status Evaluator::checkHeld(const Tensor &tensor, DType dtype, llvm::ArrayRef<double> values,
                            const char *what) const {
  for (double value : values)
    if (!isSmallInteger(value) && !isExact(dtype, value))
      return cannotVerify(tensor, "{} that {} holds exactly, got {}", what,
                          std::string_view(name(dtype)), value);
  return Status::ok();
}

/// The pattern of an input that is read along these lines.
const Pattern *Evaluator::patternOf(size_t tensor, const Lines &lines) const {
  if (!graph_.tensors[tensor].input)
    return nullptr;
  const Pattern &pattern = inputs_[*graph_.tensors[tensor].input];
  const bool isAlong = pattern.lines.areRows == lines.areRows && pattern.lines.depth == lines.depth;
  return isAlong ? &pattern : nullptr;
}

} // namespace braid::reference
