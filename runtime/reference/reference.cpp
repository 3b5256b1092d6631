//===- runtime/reference/reference.cpp - computes the expected result of a fusion -------------===//
#include "runtime/reference/reference.h"

#include "runtime/reference/reference_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {

using namespace reference;

namespace {

using Values = llvm::MutableArrayRef<double>;

/// Computes the tensors of one iteration from the fusion's definition, row by row. Computing a row
/// of a GEMM requires the nonzero elements of one row of the first operand and, for each of them, a
/// row of the second operand. At least one operand is sparse, so computing a result costs little
/// more than reading it. Ranks share no rows, so no locks are needed.
class Evaluator {
public:
  Evaluator(const Graph &graph, const Inputs &inputs, uint32_t iteration)
      : graph_(graph), inputs_(inputs), iteration_(iteration), rows_(graph.tensors.size()),
        seconds_(graph.gemms.size()) {}

  /// Reads elements [begin, begin + out.size()) of the global tensor.
  void read(size_t tensor, int64_t begin, Values out) {
    const int64_t width = rowWidth(graph_.tensors[tensor]);
    while (!out.empty()) {
      Row &row = rows_[tensor];
      const int64_t index = begin / width, from = begin % width;
      if (row.index != index) {
        row.values.assign(static_cast<size_t>(width), 0.0);
        computeRow(graph_.tensors[tensor], index, row.values);
        row.index = index;
      }
      const int64_t count = std::min<int64_t>(width - from, static_cast<int64_t>(out.size()));
      std::copy_n(row.values.begin() + from, count, out.begin());
      out = out.drop_front(static_cast<size_t>(count));
      begin += count;
    }
  }

private:
  /// The most recently computed row of a tensor.
  struct Row {
    int64_t index = -1;
    std::vector<double> values;
  };
  struct Entry {
    int64_t column;
    double value;
  };
  /// The nonzero elements of each row of a second operand.
  using SparseRows = std::vector<llvm::SmallVector<Entry, 1>>;

  /// An input with interleaved lines counts as a single row.
  int64_t rowWidth(const Tensor &tensor) const {
    if (tensor.gemm)
      return graph_.gemms[*tensor.gemm].columnCount();
    if (tensor.function)
      return rowWidth(graph_.tensors[graph_.functions[*tensor.function].operands.front()]);
    const Lines &lines = inputs_.patterns[*tensor.input].lines;
    return lines.areRows ? lines.depth : tensor.placement.globalElements();
  }

  /// `row` must be zeroed.
  void computeRow(const Tensor &tensor, int64_t index, Values row) {
    if (tensor.gemm) {
      for (const Gemm &gemm : graph_.gemmsOf(tensor))
        addGemmRow(gemm, index, row);
      return;
    }
    if (tensor.function)
      return computeFunctionRow(graph_.functions[*tensor.function], index, row);
    const Pattern &pattern = inputs_.patterns[*tensor.input];
    const int64_t lines = pattern.lines.areRows ? 1 : pattern.lines.placement.globalElements();
    for (int64_t line = 0; line < lines; ++line)
      pattern.line(iteration_, index + line,
                   [&](int64_t k, double value) { row[k * lines + line] = value; });
  }

  void computeFunctionRow(const Function &function, int64_t index, Values row) {
    const int64_t begin = index * static_cast<int64_t>(row.size());
    std::vector<double> others(row.size());
    read(function.operands.front(), begin, row);
    read(function.operands.back(), begin, others);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = function.value(row[i], others[i]);
  }

  void addGemmRow(const Gemm &gemm, int64_t index, Values row) {
    if (gemm.bias)
      read(*gemm.bias, 0, row);
    const Pattern *pattern = inputs_.along(graph_.tensors[gemm.second], gemm.columns);
    if (pattern && pattern->kind == Pattern::Kind::Weights)
      return forEachNonzero(gemm.first, index, gemm.rows, [&](int64_t k, double value) {
        pattern->addWeights(iteration_, k, value, row);
      });
    SparseRows &second = seconds_[static_cast<size_t>(&gemm - graph_.gemms.data())];
    if (second.empty())
      readSecond(gemm, pattern, second);
    forEachNonzero(gemm.first, index, gemm.rows, [&](int64_t k, double value) {
      for (const Entry &entry : second[static_cast<size_t>(k)])
        row[static_cast<size_t>(entry.column)] += value * entry.value;
    });
  }

  void forEachNonzero(size_t tensor, int64_t index, const Lines &rows, Pattern::Sink sink) {
    if (const Pattern *pattern = inputs_.along(graph_.tensors[tensor], rows))
      return pattern->line(iteration_, index, sink);
    std::vector<double> values(static_cast<size_t>(rows.depth));
    read(tensor, index * rows.depth, values);
    for (size_t k = 0; k < values.size(); ++k)
      if (values[k] != 0)
        sink(static_cast<int64_t>(k), values[k]);
  }

  void readSecond(const Gemm &gemm, const Pattern *pattern, SparseRows &rows) {
    const int64_t columns = gemm.columnCount(), depth = gemm.depth();
    rows.resize(static_cast<size_t>(depth));
    const auto add = [&](int64_t k, int64_t column, double value) {
      if (value != 0)
        rows[static_cast<size_t>(k)].push_back({column, value});
    };
    for (int64_t n = 0; pattern && n < columns; ++n)
      pattern->line(iteration_, n, [&](int64_t k, double value) { add(k, n, value); });
    const int64_t width = gemm.transposed ? depth : columns;
    std::vector<double> row(static_cast<size_t>(width));
    for (int64_t i = 0; !pattern && i < columns * depth / width; ++i) {
      read(gemm.second, i * width, row);
      for (int64_t j = 0; j < width; ++j)
        add(gemm.transposed ? j : i, gemm.transposed ? i : j, row[static_cast<size_t>(j)]);
    }
  }

  const Graph &graph_;
  const Inputs &inputs_;
  uint32_t iteration_;
  std::vector<Row> rows_;           ///< by tensor
  std::vector<SparseRows> seconds_; ///< by GEMM
};

std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

/// Formats an element as "%C[3, 17, 0]". `at` is its local index.
std::string elementName(const Tensor &tensor, int64_t at) {
  std::string indices;
  for (size_t axis = tensor.global.size(); axis-- > 0;) {
    const int64_t extent = axis == tensor.deviceAxis ? 1 : tensor.global[axis];
    indices = fmt::format("{}{}{}", axis ? ", " : "", at % extent, indices);
    at /= extent;
  }
  return fmt::format("%{}[{}]", tensor.name, indices);
}

} // namespace

Reference::Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName)
    : graph_(fusion, fileName), inputs_(graph_, seed) {}

void Reference::fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const {
  inputs_.patterns[index].fill(iteration, rank, graph_.tensors[graph_.inputs[index]].dtype, data);
}

Status Reference::compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const {
  const Tensor &tensor = graph_.tensors[graph_.outputs[index]];
  if (!inputs_.misfit.empty())
    return Status(StatusCode::Unsupported, inputs_.misfit);
  constexpr int64_t kMost = 4096; // elements to compare at a time
  Evaluator evaluator(graph_, inputs_, iteration);
  int64_t differences = 0;
  std::string first; ///< the first difference
  std::vector<double> got, expected;
  const Placement &placement = tensor.placement;
  for (int64_t local = 0; local < placement.localElements();) {
    // These elements are contiguous both on the rank and in the global tensor.
    const int64_t count = std::min(kMost, placement.inner - local % placement.inner);
    const int64_t global = placement.globalOf(rank, local);
    got.resize(static_cast<size_t>(count));
    expected.resize(got.size());
    evaluator.read(graph_.outputs[index], global, expected);
    load(tensor.dtype, data, local, got);
    for (size_t i = 0; i < got.size(); ++i, ++local) {
      if (!tensor.exists(global + static_cast<int64_t>(i)))
        expected[i] = std::nan(""); // padding
      const bool isRight = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
      if (!isRight && differences++ == 0)
        first = fmt::format("{} is {}, expected {}", elementName(tensor, local), number(got[i]),
                            number(expected[i]));
    }
  }
  if (differences == 0)
    return Status::ok();
  return Status(StatusCode::WrongResult,
                fmt::format("rank {}, iteration {}: {} ({} of {} elements differ)", rank, iteration,
                            first, differences, placement.localElements()));
}

int64_t Reference::elementsOf(int64_t rank) const {
  int64_t elements = 0;
  for (size_t output : graph_.outputs) {
    const Tensor &tensor = graph_.tensors[output];
    const int64_t all = tensor.placement.localElements();
    const std::optional<UnevenRows> &uneven = tensor.uneven;
    const bool isBlock = uneven && tensor.deviceAxis == uneven->axis - 1;
    elements += !uneven   ? all
                : isBlock ? all / uneven->rows * uneven->rowsOf(rank)
                          : all / (uneven->blocks * uneven->rows) * uneven->total;
  }
  return elements;
}

} // namespace braid
