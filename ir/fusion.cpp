//===- ir/fusion.cpp - fusions ----------------------------------------------------------------===//

#include "ir/fusion.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace braid {

llvm::StringRef keyword(FusionOpKind kind) {
  switch (kind) {
#define BRAID_FUSION_OP(Kind, keyword, summary)                                                    \
  case FusionOpKind::Kind:                                                                         \
    return keyword;
#include "ir/fusion_kinds.def"
  }
  llvm_unreachable("every kind is in the list");
}

llvm::StringRef keyword(const FusionNode &node) {
  if (node.kind == FusionOpKind::Pointwise)
    return keyword(node.function);
  return node.transposeB ? "linear" : keyword(node.kind);
}

bool isElementwise(const FusionNode &node) {
  return node.kind == FusionOpKind::Pointwise || node.kind == FusionOpKind::Reshard;
}

//===- GEMMs ----------------------------------------------------------------------------------===//

DType partialType(const FusionNode &gemm) { return gemm.partial.value_or(gemm.result.type.dtype); }

Contraction contractionOf(const FusionNode &gemm) {
  const size_t first = gemm.a()->type.axes.size(), second = gemm.b()->type.axes.size();
  const size_t count = contractedAxes(first, second, gemm.result.type.axes.size());
  return {first - count, gemm.transposeB ? second - count : 0, count};
}

bool isContractedOverDevices(const FusionNode &gemm, size_t pair) {
  const Contraction contraction = contractionOf(gemm);
  for (size_t i = 0; i < contraction.count; ++i)
    if (gemm.a(pair)->type.axes[contraction.first + i].kind == AxisKind::DIDx ||
        gemm.b(pair)->type.axes[contraction.second + i].kind == AxisKind::DIDx)
      return true;
  return false;
}

//===- Fusion ---------------------------------------------------------------------------------===//

const FusionParameter *Fusion::findParameter(llvm::StringRef name) const {
  const auto *found = llvm::find_if(parameters(), [&](const auto &p) { return p.name == name; });
  return found == parameters().end() ? nullptr : found;
}

bool Fusion::setParameter(llvm::StringRef name, int64_t value) {
  for (FusionParameter &parameter : parameters_) {
    if (parameter.name != name)
      continue;
    parameter.value = value;
    return true;
  }
  return false;
}

const FusionParameter *Fusion::meshParameter() const {
  const auto *found = llvm::find_if(parameters(), [&](const auto &p) { return p.scalar == mesh_; });
  return found == parameters().end() ? nullptr : found;
}

std::vector<const FusionTensor *> Fusion::inputs() const {
  std::vector<const FusionTensor *> found;
  for (const auto &node : nodes_)
    if (node->kind == FusionOpKind::Input)
      found.push_back(&node->result);
  return found;
}

std::vector<const FusionTensor *> Fusion::outputs() const {
  std::vector<const FusionTensor *> found;
  for (const auto &node : nodes_)
    if (node->kind == FusionOpKind::Output)
      llvm::append_range(found, node->operands);
  return found;
}

std::vector<const FusionNode *> Fusion::unusedNodes() const {
  llvm::DenseSet<const FusionNode *> used;
  std::vector<const FusionTensor *> needed = outputs();
  while (!needed.empty()) {
    const FusionTensor *tensor = needed.back();
    needed.pop_back();
    if (tensor && used.insert(tensor->definition).second)
      llvm::append_range(needed, tensor->definition->operands);
  }
  std::vector<const FusionNode *> unused;
  for (const auto &node : nodes_)
    if (resultOf(*node) && !used.contains(node.get()))
      unused.push_back(node.get());
  return unused;
}

void Fusion::dropUnused() {
  const std::vector<const FusionNode *> unused = unusedNodes();
  llvm::erase_if(nodes_, [&](const auto &node) {
    return node->kind != FusionOpKind::Input && llvm::is_contained(unused, node.get());
  });
}

ScalarValue Fusion::valueOf(const Scalar *extent) const {
  llvm::SmallVector<int64_t, 8> values;
  for (const FusionParameter &parameter : parameters_)
    values.push_back(parameter.value);
  return evaluate(extent, {.parameters = values, .division = Division::Exact});
}

Shape Fusion::globalShape(const FusionType &type) const {
  Shape shape;
  for (const Axis &axis : type.axes)
    shape.push_back(valueOf(axis.extent).value);
  return shape;
}

Shape Fusion::localShape(const FusionType &type) const {
  Shape shape = globalShape(type);
  for (size_t i = 0; i < shape.size(); ++i)
    if (type.axes[i].kind == AxisKind::DIDx)
      shape[i] = 1;
  return shape;
}

std::optional<UnevenRows> Fusion::unevenRows(const FusionType &type) const {
  for (size_t axis = 0; axis < type.axes.size(); ++axis) {
    const Scalar *extent = type.axes[axis].extent;
    if (extent->kind() != ScalarKind::Ceil)
      continue;
    const int64_t total = valueOf(extent->lhs()).value, blocks = valueOf(extent->rhs()).value;
    if (total % blocks != 0)
      return UnevenRows{axis, blocks, valueOf(extent).value, total};
  }
  return std::nullopt;
}

const Scalar *Fusion::addParameter(llvm::StringRef name, int64_t value, Location location) {
  const Scalar *scalar = scalars_.addParameter(name);
  parameters_.push_back({name.str(), value, scalar, location});
  return scalar;
}

void Fusion::setMesh(const Scalar *size, Location location, const Scalar *hostSize) {
  mesh_ = size;
  meshLocation_ = location;
  hostSize_ = hostSize == size ? nullptr : hostSize;
}

FusionTensor *Fusion::add(FusionNode node, llvm::StringRef name, FusionType type) {
  auto &made = *nodes_.emplace_back(std::make_unique<FusionNode>(std::move(node)));
  made.result = {name.str(), made.location, std::move(type), &made};
  return &made.result;
}

} // namespace braid
