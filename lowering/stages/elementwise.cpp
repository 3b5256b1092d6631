//===- lowering/stages/elementwise.cpp - pointwise nodes and their buffers --------------------===//

#include "lowering/stages/elementwise.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

TensorUses::TensorUses(const Fusion &fusion) : fusion_(fusion) {
  for (const auto &node : fusion.nodes())
    if (const auto *pointwise = llvm::dyn_cast<PointwiseNode>(node.get()))
      lengths_[&pointwise->result] = 1 + lengthOf(*operandsOf(*pointwise).first);
}

bool TensorUses::isRounded(const FusionTensor &tensor) const {
  return llvm::any_of(fusion_.nodes(), [&](const auto &node) {
    return !llvm::isa<PointwiseNode>(*node) &&
           llvm::is_contained(braid::operandsOf(*node), &tensor);
  });
}

bool TensorUses::isExact(const FusionTensor &tensor) const {
  return !llvm::isa<InputNode>(tensor.definition) && !isFolded(tensor) &&
         llvm::any_of(fusion_.nodes(), [&](const auto &node) {
           return llvm::isa<PointwiseNode>(*node) &&
                  llvm::is_contained(braid::operandsOf(*node), &tensor);
         });
}

/// If the only use of `tensor` is as one operand of a pointwise node, returns the node, otherwise
/// null.
const PointwiseNode *TensorUses::onlyUser(const FusionTensor &tensor) const {
  const PointwiseNode *user = nullptr;
  for (const auto &node : fusion_.nodes()) {
    const auto times = llvm::count(braid::operandsOf(*node), &tensor);
    const auto *pointwise = llvm::dyn_cast<PointwiseNode>(node.get());
    if (times == 0)
      continue;
    if (user || !pointwise || times > 1)
      return nullptr;
    user = pointwise;
  }
  return user;
}

/// Returns the number of functions that the tensor contributes to its user's expression.
size_t TensorUses::lengthOf(const FusionTensor &tensor) const {
  return canFold(tensor) ? lengths_.lookup(&tensor) : 0;
}

bool TensorUses::canFold(const FusionTensor &tensor) const {
  return llvm::isa<PointwiseNode>(tensor.definition) && onlyUser(tensor) &&
         lengths_.lookup(&tensor) < kMostPointwiseSteps;
}

/// Returns the operand whose expression the node extends, then the other, which has a buffer.
TensorUses::Operands TensorUses::operandsOf(const PointwiseNode &node) const {
  const FusionTensor *first = node.operands.front(), *second = node.operands.back();
  if (node.operands.size() == 1)
    return {first, nullptr};
  const bool isSecondLonger = lengthOf(*second) > lengthOf(*first);
  return isSecondLonger ? Operands(second, first) : Operands(first, second);
}

bool TensorUses::isFolded(const FusionTensor &tensor) const {
  return canFold(tensor) && operandsOf(*onlyUser(tensor)).first == &tensor;
}

TensorUses::Chain TensorUses::chainOf(const FusionNode &pointwise) const {
  const auto &node = *llvm::cast<PointwiseNode>(&pointwise);
  auto [first, other] = operandsOf(node);
  Chain chain{first, {}};
  if (canFold(*first))
    chain = chainOf(*first->definition);
  chain.steps.push_back({node.function, other});
  return chain;
}

const FusionTensor &originOf(const FusionTensor &tensor) {
  if (const auto *reshard = llvm::dyn_cast<ReshardNode>(tensor.definition))
    return originOf(*reshard->a);
  return tensor;
}

} // namespace braid
