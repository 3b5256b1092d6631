//===- runtime/reference/reference_graph.h - a fusion as tensors and GEMMs --------------------===//
#pragma once

#include "ir/fusion.h"

namespace braid::reference {

/// The distribution of a tensor over devices. The tensor is viewed as [outer, devices, inner]
/// elements; device d stores the elements (o, d, i), ordered by (o, i). If devices == 1, every rank
/// stores the whole tensor.
struct Placement {
  int64_t outer = 1;
  int64_t devices = 1;
  int64_t inner = 1;

  /// Splits `shape` at `axis`. If `axis` is empty, the whole shape is `inner`.
  static Placement of(llvm::ArrayRef<int64_t> shape, std::optional<size_t> axis);

  int64_t localElements() const { return outer * inner; }
  int64_t globalElements() const { return outer * devices * inner; }
  int64_t deviceOf(int64_t global) const { return (global / inner) % devices; }
  int64_t localOf(int64_t global) const {
    return global / (inner * devices) * inner + global % inner;
  }
  int64_t globalOf(int64_t rank, int64_t local) const {
    const int64_t device = devices == 1 ? 0 : rank;
    return (local / inner * devices + device) * inner + local % inner;
  }
};

/// A tensor viewed as a matrix of lines along some axes: for a GEMM, the rows of the first operand
/// or the columns of the second one, along the contracted axes.
struct Lines {
  Placement placement; ///< the distribution of the lines
  int64_t depth = 1;   ///< elements per line
  int64_t devices = 1; ///< number of devices that share each line evenly
  bool areRows = true; ///< lines are contiguous; otherwise neighboring lines are interleaved
};

struct Tensor {
  std::string name;
  std::string place; ///< "file:line:col" of its node
  DType dtype;
  Shape global;
  std::optional<size_t> deviceAxis;
  Placement placement;
  std::optional<UnevenRows> uneven; ///< nullopt if there are no padding rows
  std::optional<size_t> input;      ///< index among the fusion's inputs
  std::optional<size_t> gemm;       ///< index of the first of `pairs` GEMMs in Graph::gemms
  size_t pairs = 1;                 ///< number of GEMMs whose products are added
  std::optional<size_t> function;   ///< index into Graph::functions

  /// Returns true if `element`, an index in global row-major order, is not in a padding row.
  bool exists(int64_t element) const;
  /// Returns the lines along axes [begin, begin + count), which must be the first or last axes.
  Lines linesAlong(size_t begin, size_t count) const;
};

/// result[rows, columns] = first[rows, depth] * second + bias[columns], for one pair of operands.
/// `second` is [depth, columns], or [columns, depth] if `transposed`. A resharded operand is
/// represented by the original tensor. Only the GEMM of the first pair has a bias.
struct Gemm {
  size_t result, first, second; ///< indices into Graph::tensors
  std::optional<size_t> bias;
  bool transposed;
  Lines rows, columns; ///< lines of the first and the second operand
  /// Number of equal ranges into which devices split the depth. If greater than 1, the product over
  /// each range is a partial result, rounded to `partial`.
  int64_t shards = 1;
  DType partial;

  int64_t depth() const { return rows.depth; }
  int64_t columnCount() const { return columns.placement.globalElements(); }
};

/// result = function(operands), element by element, or a resharding if `function` is empty.
struct Function {
  size_t result; ///< indices into Graph::tensors
  llvm::SmallVector<size_t, 2> operands;
  std::optional<PointwiseFunction> function;

  /// The column Exact of pointwise_functions.def; a resharding is always exact.
  enum class Exact : uint8_t { Always, Far, Sum, Product };
  bool is(Exact kind) const;
  bool isFar() const { return is(Exact::Far); }
  /// Returns the exact result for elements x and y of the first and the last operand.
  double value(double x, double y) const;
};

/// The contents of a verified fusion, with tensors in definition order.
struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Gemm> gemms;
  std::vector<Function> functions;
  std::vector<size_t> inputs;  ///< indices into `tensors`
  std::vector<size_t> outputs; ///< indices into `tensors`

  Graph(const Fusion &fusion, const std::string &fileName);
  /// Returns the GEMMs that compute `tensor`, one for each pair of operands.
  llvm::ArrayRef<Gemm> gemmsOf(const Tensor &tensor) const {
    return llvm::ArrayRef<Gemm>(gemms).slice(*tensor.gemm, tensor.pairs);
  }
};

} // namespace braid::reference
