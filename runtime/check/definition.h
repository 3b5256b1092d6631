//===- runtime/check/definition.h - symbolic contents of a fusion's tensors -------------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/terms.h"

namespace braid::checker {

/// One device's partial result in a sum over devices, or one of the products that it consists of.
struct PartialResult {
  const FusionTensor *tensor;
  int64_t rank;
  uint32_t run;       ///< 0, 1, ...
  size_t product = 0; ///< 1, 2, ... for one product; 0 for the whole partial result
};

/// Computes, from the definition alone, the symbolic contents of a fusion's tensors on each rank.
class Definition {
public:
  Definition(const Fusion &fusion, Terms &terms);

  /// Returns the reason why the definition cannot be followed, or an empty string if it can. Must
  /// be called before contents().
  std::string whyNot() const;
  const Pieces &contents(const FusionTensor &tensor, int64_t rank, uint32_t run);
  /// Returns null if `term` is not a partial result in any contents computed so far.
  const PartialResult *partialResult(TermId term) const;

private:
  /// Returns the contents with element type `result`: the tensor's declared type or exactType().
  const Pieces &contents(const FusionTensor &tensor, int64_t rank, uint32_t run, DType result);
  DType exactType(const FusionTensor &tensor) const;
  Pieces made(const FusionTensor &tensor, int64_t rank, uint32_t run, DType result);
  Pieces pointwiseOf(const FusionNode &node, int64_t rank, uint32_t run, DType result);
  Pieces resharded(const FusionNode &node, int64_t rank, uint32_t run);
  Pieces allBlocks(const FusionTensor &tensor, uint32_t run);
  Pieces inputContents(const FusionTensor &tensor, uint32_t number, int64_t rank, uint32_t run);
  bool isPartial(const FusionNode &gemm) const;
  Factor factorOf(const FusionNode &gemm, size_t pair, Pieces b, DType result) const;
  bool addsUnrounded(const FusionTensor &tensor) const;
  Pieces sumOverDevices(const FusionNode &gemm, int64_t rank, uint32_t run, DType result);
  Pieces partialOf(const FusionNode &gemm, int64_t owner, int64_t rank, uint32_t run);
  Pieces rowsOf(const FusionNode &gemm, size_t pair, int64_t rank, uint32_t run);
  Pieces blockOf(const Pieces &whole, int64_t index) const;
  std::string whyNot(const FusionNode &node) const;
  std::string whyNotPair(const FusionNode &gemm, size_t pair) const;
  std::string whyNotElementwise(const FusionNode &node) const;

  const Fusion &fusion_;
  Terms &terms_;
  std::map<const FusionTensor *, uint32_t> numbers_; ///< the inputs' parameter numbers
  /// Contents computed so far. Tensors that are equal on all ranks are stored under rank -1.
  std::map<std::tuple<const FusionTensor *, int64_t, uint32_t, DType>, Pieces> known_;
  std::map<TermId, PartialResult> partials_;
};

} // namespace braid::checker
