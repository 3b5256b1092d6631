//===- lowering/stages/elementwise.h - pointwise nodes and their buffers ----------------------===//
//
// A pointwise node runs in the step that computes its operands, on the same rows, after the last
// GEMM that computes an operand. The node reads its operands before they are rounded:
//
//   %H = allocate device f32[8, 128, 256]
//   %G = allocate device bf16[8, 128, 256]
//   ...
//     matmul %H_out, %block, %W1
//     pointwise %G_out, gelu_tanh(%H_out)
//
// A node whose only reader is another pointwise node becomes part of the reader's expression; its
// result has no buffer. If a tensor is also needed in rounded form, a separate node rounds it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/fusion.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Determines which buffers a fusion's tensors need, based on their uses. The verified `fusion`
/// must outlive this object.
class TensorUses {
public:
  explicit TensorUses(const Fusion &fusion);

  /// True if the rounded tensor is needed, as an output or by a node that is not pointwise.
  bool isRounded(const FusionTensor &tensor) const;
  /// True for computed tensors that a pointwise node reads before they are rounded.
  bool isExact(const FusionTensor &tensor) const;
  /// True for tensors computed only inside the expression of the node that reads them.
  bool isFolded(const FusionTensor &tensor) const;

  /// A chain of pointwise functions. None of its operands is folded.
  struct Chain {
    const FusionTensor *first;
    std::vector<PointwiseStep<const FusionTensor *>> steps;
  };
  Chain chainOf(const FusionNode &pointwise) const;

private:
  using Operands = std::pair<const FusionTensor *, const FusionTensor *>;
  Operands operandsOf(const FusionNode &node) const;
  const FusionNode *onlyUser(const FusionTensor &tensor) const;
  bool canFold(const FusionTensor &tensor) const;
  size_t lengthOf(const FusionTensor &tensor) const;

  const Fusion &fusion_;
  /// The number of functions in each pointwise node's expression.
  llvm::DenseMap<const FusionTensor *, size_t> lengths_;
};

/// Returns the tensor that `tensor` reshards, possibly in several steps, otherwise `tensor` itself.
const FusionTensor &originOf(const FusionTensor &tensor);

} // namespace braid
