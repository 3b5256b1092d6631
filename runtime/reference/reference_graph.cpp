//===- runtime/reference/reference_graph.cpp - a fusion as tensors and GEMMs ------------------===//
#include "runtime/reference/reference_graph.h"

#include "ir/diagnostics.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>

namespace braid::reference {

namespace {

int64_t productOf(llvm::ArrayRef<int64_t> extents) { return *elementCount(extents); }

/// Returns `axis` relative to `begin` if it is among the `count` axes that start at `begin`.
std::optional<size_t> within(std::optional<size_t> axis, size_t begin, size_t count) {
  if (!axis || *axis < begin || *axis >= begin + count)
    return std::nullopt;
  return *axis - begin;
}

} // namespace

Placement Placement::of(llvm::ArrayRef<int64_t> shape, std::optional<size_t> axis) {
  if (!axis)
    return {1, 1, productOf(shape)};
  return {productOf(shape.take_front(*axis)), shape[*axis], productOf(shape.drop_front(*axis + 1))};
}

bool Function::is(Exact kind) const {
  static constexpr Exact kKinds[] = {
#define BRAID_POINTWISE(Function, keyword, operands, exact, ...) Exact::exact,
#include "ir/pointwise_functions.def"
  };
  return kind == (function ? kKinds[static_cast<size_t>(*function)] : Exact::Always);
}

double Function::value(double x, double y) const {
  if (!function)
    return x;
  switch (*function) {
#define BRAID_POINTWISE(Function, keyword, operands, exact, value, ...)                            \
  case PointwiseFunction::Function:                                                                \
    return value;
#include "ir/pointwise_functions.def"
  }
  llvm_unreachable("covered above");
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
  const Diagnostics names(fileName, "");
  llvm::DenseMap<const FusionTensor *, size_t> indexOf;
  const auto originOf = [&](const FusionTensor *tensor) {
    while (tensor->definition->kind == FusionOpKind::Reshard)
      tensor = tensor->definition->a();
    return indexOf.lookup(tensor);
  };
  for (const auto &node : fusion.nodes()) {
    if (node->kind == FusionOpKind::Output) {
      for (const FusionTensor *tensor : node->operands)
        outputs.push_back(indexOf.lookup(tensor));
      continue;
    }
    const FusionTensor &tensor = *resultOf(*node);
    const auto &operands = node->operands;
    const size_t index = tensors.size();
    Tensor made;
    made.name = tensor.name;
    made.place = names.place(tensor.location);
    made.dtype = tensor.type.dtype;
    made.global = fusion.globalShape(tensor.type);
    made.deviceAxis = tensor.type.find(AxisKind::DIDx);
    made.placement = Placement::of(made.global, made.deviceAxis);
    made.uneven = fusion.unevenRows(tensor.type);
    if (node->kind == FusionOpKind::Input) {
      made.input = inputs.size();
      inputs.push_back(index);
    } else if (isGemm(*node)) {
      made.gemm = gemms.size();
      made.pairs = node->pairs();
      const Contraction contraction = contractionOf(*node);
      for (size_t pair = 0; pair < made.pairs; ++pair) {
        Gemm &gemm = gemms.emplace_back();
        gemm.result = index;
        gemm.first = originOf(node->a(pair));
        gemm.second = originOf(node->b(pair));
        if (pair == 0 && node->bias())
          gemm.bias = originOf(node->bias());
        gemm.transposed = node->transposeB;
        gemm.rows = tensors[gemm.first].linesAlong(contraction.first, contraction.count);
        gemm.columns = tensors[gemm.second].linesAlong(contraction.second, contraction.count);
        gemm.shards = isContractedOverDevices(*node) ? fusion.ranks() : 1;
        gemm.partial = partialType(*node);
      }
    } else {
      made.function = functions.size();
      Function &function = functions.emplace_back();
      function.result = index;
      for (const FusionTensor *operand : operands)
        function.operands.push_back(indexOf.lookup(operand));
      if (node->kind == FusionOpKind::Pointwise)
        function.function = node->function;
    }
    indexOf[&tensor] = index;
    tensors.push_back(std::move(made));
  }
}

} // namespace braid::reference
