//===- lowering/stages/elementwise.h - what is computed element by element --------------------===//
//
// A pointwise node is computed in the step that makes its operands, on the same rows, behind the
// GEMM that makes the last of them. Its operands are read as they are before they are rounded:
//
//   %H = allocate device f32[8, 128, 256]
//   %G = allocate device bf16[8, 128, 256]
//   ...
//     matmul %H_out, %block, %W1
//     pointwise %G_out, gelu_tanh(%H_out)
//
// A node whose result only one other pointwise node takes is a part of that one's expression, and
// has no buffer. A tensor that is wanted rounded, too, is rounded by a node of its own.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/fusion.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Which buffers a fusion's tensors need, by who uses them. `fusion` is verified and outlives this.
class TensorUses {
public:
  explicit TensorUses(const Fusion &fusion);

  /// An output, or an operand of something but a pointwise node.
  bool isRounded(const FusionTensor &tensor) const;
  /// Computed, and read by a pointwise node before it is rounded.
  bool isExact(const FusionTensor &tensor) const;
  /// Computed in the expression of the node that takes it, and nowhere else.
  bool isFolded(const FusionTensor &tensor) const;

  /// An expression of pointwise functions, of tensors that are not folded.
  struct Chain {
    const FusionTensor *first;
    std::vector<PointwiseStep<const FusionTensor *>> steps;
  };
  Chain chainOf(const FusionNode &pointwise) const;

private:
  using Operands = std::pair<const FusionTensor *, const FusionTensor *>;
  Operands operandsOf(const PointwiseNode &node) const;
  const PointwiseNode *onlyUser(const FusionTensor &tensor) const;
  bool canFold(const FusionTensor &tensor) const;
  size_t lengthOf(const FusionTensor &tensor) const;

  const Fusion &fusion_;
  /// The number of functions in the expression of each pointwise node.
  llvm::DenseMap<const FusionTensor *, size_t> lengths_;
};

/// The tensor that `tensor` is another name of, on devices where it is whole: what a reshard takes.
const FusionTensor &originOf(const FusionTensor &tensor);

} // namespace braid
