//===- runtime/reference/reference_evaluator.h - the values of all tensors in one iteration ---===//
#pragma once

#include "api/status.h"
#include "ir/failure.h"
#include "runtime/reference/reference_inputs.h"

namespace braid::reference {

/// Evaluates a fusion by its definition in f64, row by row: a row of a GEMM needs the nonzero
/// elements of one row of its first operand, and for each of them a row of the second. Made for one
/// comparison, not shared between threads.
class Evaluator {
public:
  /// The arguments outlive this.
  Evaluator(const Graph &graph, const Inputs &inputs, uint32_t iteration)
      : graph_(graph), inputs_(inputs), iteration_(iteration), rows_(graph.tensors.size()),
        seconds_(graph.gemms.size()) {}

  /// Elements [begin, begin + out.size()) of a tensor, counted in its global row-major order.
  /// Unsupported if some value on the way cannot be computed exactly by everyone.
  Status read(size_t tensor, int64_t begin, llvm::MutableArrayRef<double> out);

private:
  /// The row of a tensor that was computed last.
  struct Row {
    int64_t index = -1;
    std::vector<double> values;
  };
  struct Entry {
    int64_t column;
    double value;
  };
  /// The nonzero elements of every row of a second operand.
  using SparseRows = std::vector<llvm::SmallVector<Entry, 1>>;
  using Sink = llvm::function_ref<void(int64_t at, double value)>;

  int64_t rowWidth(size_t tensor) const;
  Status computeRow(size_t tensor, int64_t index, llvm::MutableArrayRef<double> row);
  Status computeFunctionRow(const Function &function, int64_t index,
                            llvm::MutableArrayRef<double> row);
  Status apply(const Function &function, double x, double y, double &result) const;
  Status computeGemmRow(const Gemm &gemm, int64_t index, llvm::MutableArrayRef<double> row);
  Status addProducts(const Gemm &gemm, int64_t index, llvm::MutableArrayRef<double> partials);
  Status forEachNonzero(size_t tensor, int64_t row, int64_t width, Sink sink);
  Status readSecond(const Gemm &gemm);
  Status checkHeld(const Tensor &tensor, DType dtype, llvm::ArrayRef<double> values,
                   const char *what) const;
  const Pattern *patternOf(size_t tensor, const Lines &lines) const;

  const Graph &graph_;
  const Inputs &inputs_;
  uint32_t iteration_;
  std::vector<Row> rows_;                          ///< one for each tensor
  std::vector<std::optional<SparseRows>> seconds_; ///< one for each GEMM
};

} // namespace braid::reference
