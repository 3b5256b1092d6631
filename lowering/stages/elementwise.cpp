//===- lowering/stages/elementwise.cpp - pointwise nodes and their buffers --------------------===//

#include "lowering/stages/elementwise.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

TensorUses::TensorUses(const Fusion &fusion) : fusion_(fusion) {
  for (const auto &node : fusion.nodes())
    if (node->kind == FusionOpKind::Pointwise)
      lengths_[&node->result] = 1 + lengthOf(*operandsOf(*node).first);
}

bool TensorUses::isRounded(const FusionTensor &tensor) const {
  return llvm::any_of(fusion_.nodes(), [&](const auto &node) {
    return node->kind != FusionOpKind::Pointwise && llvm::is_contained(node->operands, &tensor);
  });
}

bool TensorUses::isExact(const FusionTensor &tensor) const {
  return tensor.definition->kind != FusionOpKind::Input && !isFolded(tensor) &&
         llvm::any_of(fusion_.nodes(), [&](const auto &node) {
           return node->kind == FusionOpKind::Pointwise &&
                  llvm::is_contained(node->operands, &tensor);
         });
}

/// If the only use of `tensor` is as one operand of a pointwise node, returns the node, otherwise
/// null.
const FusionNode *TensorUses::onlyUser(const FusionTensor &tensor) const {
  const FusionNode *user = nullptr;
  for (const auto &node : fusion_.nodes()) {
    const auto times = llvm::count(node->operands, &tensor);
    if (times == 0)
      continue;
    if (user || node->kind != FusionOpKind::Pointwise || times > 1)
      return nullptr;
    user = node.get();
  }
  return user;
}

/// Returns the number of functions that the tensor contributes to its user's expression.
size_t TensorUses::lengthOf(const FusionTensor &tensor) const {
  return canFold(tensor) ? lengths_.lookup(&tensor) : 0;
}

bool TensorUses::canFold(const FusionTensor &tensor) const {
  return tensor.definition->kind == FusionOpKind::Pointwise && onlyUser(tensor) &&
         lengths_.lookup(&tensor) < kMostPointwiseSteps;
}

/// Returns the operand whose expression the node extends, and the other operand, if any.
TensorUses::Operands TensorUses::operandsOf(const FusionNode &node) const {
  const FusionTensor *first = node.operands.front(), *second = node.operands.back();
  if (node.operands.size() == 1)
    return {first, nullptr};
  const bool isSecondLonger = lengthOf(*second) > lengthOf(*first);
  return isSecondLonger ? Operands(second, first) : Operands(first, second);
}

bool TensorUses::isFolded(const FusionTensor &tensor) const {
  return canFold(tensor) && operandsOf(*onlyUser(tensor)).first == &tensor;
}

TensorUses::Chain TensorUses::chainOf(const FusionNode &node) const {
  auto [first, other] = operandsOf(node);
  Chain chain{first, {}};
  if (canFold(*first))
    chain = chainOf(*first->definition);
  chain.steps.push_back({node.function, other});
  return chain;
}

const FusionTensor &originOf(const FusionTensor &tensor) {
  const bool isReshard = tensor.definition->kind == FusionOpKind::Reshard;
  return isReshard ? originOf(*tensor.definition->a()) : tensor;
}

} // namespace braid
