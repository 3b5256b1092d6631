//===- runtime/reference/reference_graph.cpp - a fusion in plain numbers, for the judge -------===//
#include "runtime/reference/reference_graph.h"

#include "ir/diagnostics.h"

#include "llvm/ADT/DenseMap.h"

namespace braid::reference {

namespace {

int64_t productOf(llvm::ArrayRef<int64_t> extents) {
  int64_t count = 1;
  for (int64_t extent : extents)
    count *= extent;
  return count;
}

/// Reads the nodes of a fusion in text order.
class GraphReader {
public:
  GraphReader(const Fusion &fusion, const std::string &fileName, Graph &graph)
      : fusion_(fusion), names_(fileName, ""), graph_(graph) {}

  void read(const FusionNode &node) {
    if (llvm::isa<InputNode>(node))
      return readInput(*resultOf(node));
    if (isGemm(node))
      return readGemm(node);
    if (isElementwise(node))
      return readFunction(node);
    for (const FusionTensor *tensor : llvm::cast<OutputNode>(node).tensors)
      graph_.outputs.push_back(indexOf_.lookup(tensor));
  }

private:
  size_t define(const FusionTensor &tensor) {
    Tensor made;
    made.name = tensor.name;
    made.place = names_.place(tensor.location);
    made.dtype = tensor.type.dtype;
    made.global = fusion_.globalShape(tensor.type);
    made.local = fusion_.localShape(tensor.type);
    made.deviceAxis = tensor.type.find(AxisKind::DIDx);
    made.uneven = fusion_.unevenRows(tensor.type);
    made.placement = Placement::of(made.global, made.deviceAxis);
    indexOf_[&tensor] = graph_.tensors.size();
    graph_.tensors.push_back(std::move(made));
    return graph_.tensors.size() - 1;
  }

  void readInput(const FusionTensor &tensor) {
    const size_t index = define(tensor);
    graph_.tensors[index].input = graph_.inputs.size();
    graph_.inputs.push_back(index);
  }

  void readFunction(const FusionNode &node) {
    Function function;
    for (const FusionTensor *operand : operandsOf(node))
      function.operands.push_back(indexOf_.lookup(operand));
    if (const auto *pointwise = llvm::dyn_cast<PointwiseNode>(&node))
      function.function = pointwise->function;
    function.result = define(*resultOf(node));
    graph_.tensors[function.result].function = graph_.functions.size();
    graph_.functions.push_back(std::move(function));
  }

  /// A tensor, wherever it lives: the one that was resharded, if any.
  size_t originOf(const FusionTensor &tensor) const {
    if (const auto *reshard = llvm::dyn_cast<ReshardNode>(tensor.definition))
      return originOf(*reshard->a);
    return indexOf_.lookup(&tensor);
  }

  void readGemm(const FusionNode &node) {
    const auto operands = operandsOf(node);
    Gemm gemm;
    gemm.first = originOf(*operands[0]);
    gemm.second = indexOf_.lookup(operands[1]);
    if (operands.size() > 2)
      gemm.bias = indexOf_.lookup(operands[2]);
    gemm.transposed = transposesB(node);
    gemm.contractedAxes = contractionOf(node).count;
    gemm.shards = isContractedOverDevices(node) ? fusion_.ranks() : 1;
    gemm.partial = partialType(node);
    gemm.result = define(*resultOf(node));
    graph_.tensors[gemm.result].gemm = graph_.gemms.size();
    placeColumns(gemm);
    placeRows(gemm);
    graph_.gemms.push_back(gemm);
  }

  void placeColumns(Gemm &gemm) const {
    const Tensor &second = graph_.tensors[gemm.second];
    const Tensor &result = graph_.tensors[gemm.result];
    const llvm::ArrayRef<int64_t> shape = second.global;
    const size_t count = shape.size() - gemm.contractedAxes;
    const size_t begin = gemm.transposed ? 0 : gemm.contractedAxes;
    const auto columns = shape.slice(begin, count);
    gemm.columns = productOf(columns);
    gemm.depth = productOf(shape) / gemm.columns;

    std::optional<size_t> axis = within(second.deviceAxis, begin, count);
    if (!axis)
      axis = within(result.deviceAxis, result.global.size() - count, count);
    gemm.columnPlacement = Placement::of(columns, axis);
  }

  void placeRows(Gemm &gemm) const {
    const Tensor &first = graph_.tensors[gemm.first];
    const Tensor &result = graph_.tensors[gemm.result];
    const auto rows = llvm::ArrayRef<int64_t>(first.global).drop_back(gemm.contractedAxes);
    std::optional<size_t> axis = within(first.deviceAxis, 0, rows.size());
    if (!axis)
      axis = within(result.deviceAxis, 0, rows.size());
    gemm.rowPlacement = axis ? Placement::of(rows, axis) : equalBlocks(productOf(rows));
  }

  /// As many blocks as there are devices; the last may be short.
  Placement equalBlocks(int64_t rows) const {
    const int64_t ranks = fusion_.ranks();
    return {1, ranks, (rows + ranks - 1) / ranks};
  }

  /// `axis` counted from `begin`, if it is one of the `count` axes that start there.
  static std::optional<size_t> within(std::optional<size_t> axis, size_t begin, size_t count) {
    if (!axis || *axis < begin || *axis >= begin + count)
      return std::nullopt;
    return *axis - begin;
  }

  const Fusion &fusion_;
  const Diagnostics names_; ///< of places
  Graph &graph_;
  llvm::DenseMap<const FusionTensor *, size_t> indexOf_;
};

} // namespace

Placement Placement::of(llvm::ArrayRef<int64_t> shape, std::optional<size_t> axis) {
  if (!axis)
    return {1, 1, productOf(shape)};
  return {productOf(shape.take_front(*axis)), shape[*axis], productOf(shape.drop_front(*axis + 1))};
}

bool Tensor::exists(int64_t element) const {
  if (!uneven)
    return true;
  const int64_t rowElements =
      productOf(llvm::ArrayRef<int64_t>(global).drop_front(uneven->axis + 1));
  return element / rowElements % (uneven->blocks * uneven->rows) < uneven->total;
}

Graph::Graph(const Fusion &fusion, const std::string &fileName) {
  GraphReader reader(fusion, fileName, *this);
  for (const auto &node : fusion.nodes())
    reader.read(*node);
}

} // namespace braid::reference
