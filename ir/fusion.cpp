//===- ir/fusion.cpp - fusions and their builder ----------------------------------------------===//

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

llvm::SmallVector<FusionTensor *, 3> operandsOf(const FusionNode &node) {
  switch (node.kind()) {
  case FusionOpKind::Input:
    return {};
  case FusionOpKind::Matmul: {
    const auto &matmul = *llvm::cast<MatmulNode>(&node);
    if (!matmul.bias)
      return {matmul.a, matmul.b};
    return {matmul.a, matmul.b, matmul.bias};
  }
  case FusionOpKind::Pointwise: {
    const auto &pointwise = *llvm::cast<PointwiseNode>(&node);
    return {pointwise.operands.begin(), pointwise.operands.end()};
  }
  case FusionOpKind::Reshard:
    return {llvm::cast<ReshardNode>(&node)->a};
  case FusionOpKind::Output: {
    const auto &output = *llvm::cast<OutputNode>(&node);
    return {output.tensors.begin(), output.tensors.end()};
  }
  }
  llvm_unreachable("covered above");
}

template <class Node> static const FusionTensor *tensorIn(const Node &node) {
  if constexpr (requires { node.result; })
    return &node.result;
  else
    return nullptr;
}

const FusionTensor *resultOf(const FusionNode &node) {
  switch (node.kind()) {
#define BRAID_FUSION_OP(Kind, keyword, summary)                                                    \
  case FusionOpKind::Kind:                                                                         \
    return tensorIn(*llvm::cast<Kind##Node>(&node));
#include "ir/fusion_kinds.def"
  }
  llvm_unreachable("every kind is in the list");
}

FusionTensor *resultOf(FusionNode &node) {
  return const_cast<FusionTensor *>(resultOf(static_cast<const FusionNode &>(node)));
}

llvm::StringRef keyword(const FusionNode &node) {
  if (const auto *pointwise = llvm::dyn_cast<PointwiseNode>(&node))
    return keyword(pointwise->function);
  return transposesB(node) ? "linear" : keyword(node.kind());
}

bool isElementwise(const FusionNode &node) {
  return llvm::isa<PointwiseNode>(node) || llvm::isa<ReshardNode>(node);
}

//===- GEMMs ----------------------------------------------------------------------------------===//

bool isGemm(const FusionNode &node) { return llvm::isa<MatmulNode>(node); }

bool transposesB(const FusionNode &node) {
  const auto *matmul = llvm::dyn_cast<MatmulNode>(&node);
  return matmul && matmul->transposeB;
}

DType partialType(const FusionNode &gemm) {
  const auto &matmul = *llvm::cast<MatmulNode>(&gemm);
  return matmul.partial.value_or(matmul.result.type.dtype);
}

Contraction contractionOf(const FusionNode &gemm) {
  auto operands = operandsOf(gemm);
  const size_t first = operands[0]->type.axes.size(), second = operands[1]->type.axes.size();
  const size_t count = contractedAxes(first, second, resultOf(gemm)->type.axes.size());
  return {first - count, transposesB(gemm) ? second - count : 0, count};
}

bool isContractedOverDevices(const FusionNode &gemm) {
  auto operands = operandsOf(gemm);
  const Contraction contraction = contractionOf(gemm);
  for (size_t i = 0; i < contraction.count; ++i)
    if (operands[0]->type.axes[contraction.first + i].kind == AxisKind::DIDx ||
        operands[1]->type.axes[contraction.second + i].kind == AxisKind::DIDx)
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
    if (const auto *input = llvm::dyn_cast<InputNode>(node.get()))
      found.push_back(&input->result);
  return found;
}

std::vector<const FusionTensor *> Fusion::outputs() const {
  std::vector<const FusionTensor *> found;
  for (const auto &node : nodes_)
    if (const auto *output = llvm::dyn_cast<OutputNode>(node.get()))
      found.insert(found.end(), output->tensors.begin(), output->tensors.end());
  return found;
}

std::vector<const FusionNode *> Fusion::unusedNodes() const {
  llvm::DenseSet<const FusionNode *> used;
  std::vector<const FusionTensor *> needed = outputs();
  while (!needed.empty()) {
    const FusionTensor *tensor = needed.back();
    needed.pop_back();
    if (tensor && used.insert(tensor->definition).second)
      llvm::append_range(needed, braid::operandsOf(*tensor->definition));
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
    return !llvm::isa<InputNode>(*node) && llvm::is_contained(unused, node.get());
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

//===- FusionBuilder --------------------------------------------------------------------------===//

const Scalar *FusionBuilder::parameter(llvm::StringRef name, int64_t value, Location location) {
  const Scalar *scalar = fusion_.scalars_.addParameter(name);
  fusion_.parameters_.push_back({name.str(), value, scalar, location});
  return scalar;
}

void FusionBuilder::mesh(const Scalar *size, Location location, const Scalar *hostSize) {
  fusion_.mesh_ = size;
  fusion_.meshLocation_ = location;
  fusion_.hostSize_ = hostSize == size ? nullptr : hostSize;
}

template <class Node> Node *FusionBuilder::append(Location location) {
  auto *node = new Node(location);
  fusion_.nodes_.emplace_back(node);
  return node;
}

FusionTensor *FusionBuilder::define(FusionTensor &tensor, FusionNode *node, llvm::StringRef name,
                                    DType dtype, llvm::ArrayRef<Axis> axes) {
  tensor.name = name.str();
  tensor.location = node->location();
  tensor.type.dtype = dtype;
  tensor.type.axes.assign(axes.begin(), axes.end());
  tensor.definition = node;
  return &tensor;
}

FusionTensor *FusionBuilder::input(llvm::StringRef name, DType dtype, llvm::ArrayRef<Axis> axes,
                                   Location location) {
  auto *node = append<InputNode>(location);
  return define(node->result, node, name, dtype, axes);
}

FusionTensor *FusionBuilder::matmul(llvm::StringRef name, FusionTensor *a, FusionTensor *b,
                                    llvm::ArrayRef<Axis> axes, std::optional<DType> dtype,
                                    Location location, std::optional<DType> partial) {
  auto *node = append<MatmulNode>(location);
  node->partial = partial;
  node->a = a;
  node->b = b;
  return define(node->result, node, name, dtype.value_or(a->type.dtype), axes);
}

FusionTensor *FusionBuilder::linear(llvm::StringRef name, FusionTensor *a, FusionTensor *b,
                                    FusionTensor *bias, llvm::ArrayRef<Axis> axes,
                                    std::optional<DType> dtype, Location location,
                                    std::optional<DType> partial) {
  FusionTensor *result = matmul(name, a, b, axes, dtype, location, partial);
  auto *node = llvm::cast<MatmulNode>(result->definition);
  node->bias = bias;
  node->transposeB = true;
  return result;
}

FusionTensor *FusionBuilder::pointwise(llvm::StringRef name, PointwiseFunction function,
                                       llvm::ArrayRef<FusionTensor *> operands,
                                       llvm::ArrayRef<Axis> axes, std::optional<DType> dtype,
                                       Location location) {
  auto *node = append<PointwiseNode>(location);
  node->function = function;
  node->operands.assign(operands.begin(), operands.end());
  return define(node->result, node, name, dtype.value_or(operands.front()->type.dtype), axes);
}

FusionTensor *FusionBuilder::reshard(llvm::StringRef name, FusionTensor *a,
                                     llvm::ArrayRef<Axis> axes, std::optional<DType> dtype,
                                     Location location) {
  auto *node = append<ReshardNode>(location);
  node->a = a;
  return define(node->result, node, name, dtype.value_or(a->type.dtype), axes);
}

void FusionBuilder::output(llvm::ArrayRef<FusionTensor *> tensors, Location location) {
  auto *node = append<OutputNode>(location);
  node->tensors.assign(tensors.begin(), tensors.end());
}

} // namespace braid
