//===- runtime/reference/reference_graph.cpp - a fusion as tensors and GEMMs ------------------===//
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

/// Returns `axis` relative to `begin` if it is among the `count` axes that start at `begin`.
std::optional<size_t> within(std::optional<size_t> axis, size_t begin, size_t count) {
  if (!axis || *axis < begin || *axis >= begin + count)
    return std::nullopt;
  return *axis - begin;
}

/// Reads the nodes of a fusion in source order.
class GraphReader {
public:
  GraphReader(const Fusion &fusion, const std::string &fileName, Graph &graph)
      : fusion_(fusion), names_(fileName, ""), graph_(graph) {}

  void read(const FusionNode &node) {
    if (node.kind == FusionOpKind::Input)
      return readInput(*resultOf(node));
    if (isGemm(node))
      return readGemm(node);
    if (isElementwise(node))
      return readFunction(node);
    for (const FusionTensor *tensor : node.operands)
      graph_.outputs.push_back(indexOf_.lookup(tensor));
  }

private:
  size_t define(const FusionTensor &tensor) {
    Tensor made;
    made.name = tensor.name;
    made.place = names_.place(tensor.location);
    made.dtype = tensor.type.dtype;
    made.global = fusion_.globalShape(tensor.type);
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
    for (const FusionTensor *operand : node.operands)
      function.operands.push_back(indexOf_.lookup(operand));
    if (node.kind == FusionOpKind::Pointwise)
      function.function = node.function;
    function.result = define(*resultOf(node));
    graph_.tensors[function.result].function = graph_.functions.size();
    graph_.functions.push_back(std::move(function));
  }

  size_t originOf(const FusionTensor &tensor) const {
    if (tensor.definition->kind == FusionOpKind::Reshard)
      return originOf(*tensor.definition->a());
    return indexOf_.lookup(&tensor);
  }

  void readGemm(const FusionNode &node) {
    const Contraction contraction = contractionOf(node);
    Gemm gemm;
    gemm.first = originOf(*node.a());
    gemm.second = originOf(*node.b());
    if (node.bias())
      gemm.bias = originOf(*node.bias());
    gemm.transposed = node.transposeB;
    gemm.rows = graph_.tensors[gemm.first].linesAlong(contraction.first, contraction.count);
    gemm.columns = graph_.tensors[gemm.second].linesAlong(contraction.second, contraction.count);
    gemm.shards = isContractedOverDevices(node) ? fusion_.ranks() : 1;
    gemm.partial = partialType(node);
    gemm.result = define(*resultOf(node));
    graph_.tensors[gemm.result].gemm = graph_.gemms.size();
    graph_.gemms.push_back(gemm);
  }

  const Fusion &fusion_;
  const Diagnostics names_;
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

Lines Tensor::linesAlong(size_t begin, size_t count) const {
  const llvm::ArrayRef<int64_t> shape = global;
  const size_t others = shape.size() - count;
  const bool areRows = begin != 0 || others == 0;
  const size_t firstOther = areRows ? 0 : count;
  const bool isSplit = within(deviceAxis, begin, count).has_value();
  return {Placement::of(shape.slice(firstOther, others), within(deviceAxis, firstOther, others)),
          productOf(shape.slice(begin, count)), isSplit ? placement.devices : 1, areRows};
}

Graph::Graph(const Fusion &fusion, const std::string &fileName) {
  GraphReader reader(fusion, fileName, *this);
  for (const auto &node : fusion.nodes())
    reader.read(*node);
}

} // namespace braid::reference
