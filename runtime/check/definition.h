//===- runtime/check/definition.h - what a fusion's tensors hold, in terms --------------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/terms.h"

namespace braid::checker {

/// A sum of which each device has a partial result.
struct PartialResult {
  const FusionTensor *tensor;
  int64_t rank;
  uint32_t run; ///< 0, 1, ...
};

/// The contents of a fusion's tensor on one rank, in terms. Written from the definition alone.
class Definition {
public:
  Definition(const Fusion &fusion, Terms &terms);

  /// Why the definition cannot be followed, or an empty string. Ask before anything else.
  std::string whyNot() const;
  const Pieces &contents(const FusionTensor &tensor, int64_t rank, uint32_t run);
  /// Null if a term is no partial result, or of none of the contents asked for so far.
  const PartialResult *partialResult(TermId term) const;

private:
  /// The type in which the contents of a tensor are asked for: its own, or, of one that is
  /// computed, that of the accumulator, before it is rounded.
  enum class Rounding : uint8_t { Done, NotYet };
  const Pieces &contents(const FusionTensor &tensor, int64_t rank, uint32_t run, Rounding rounding);
  DType typeOf(const FusionTensor &tensor, Rounding rounding) const;
  Pieces made(const FusionTensor &tensor, int64_t rank, uint32_t run, Rounding rounding);
  Pieces pointwiseOf(const PointwiseNode &node, int64_t rank, uint32_t run, DType result);
  Pieces resharded(const ReshardNode &node, int64_t rank, uint32_t run);
  Pieces allBlocks(const FusionTensor &tensor, uint32_t run);
  Pieces inputContents(const FusionTensor &tensor, uint32_t number, int64_t rank, uint32_t run);
  bool isPartial(const MatmulNode &gemm) const;
  Factor factorOf(const MatmulNode &gemm, Pieces b, DType result) const;
  Pieces sumOverDevices(const MatmulNode &gemm, int64_t rank, uint32_t run, DType result);
  Pieces partialOf(const MatmulNode &gemm, int64_t owner, int64_t rank, uint32_t run);
  Pieces rowsOf(const MatmulNode &gemm, int64_t rank, uint32_t run);
  Pieces blockOf(const Pieces &whole, int64_t index) const;
  std::string whyNot(const FusionNode &node) const;
  std::string whyNotElementwise(const FusionNode &node) const;

  const Fusion &fusion_;
  Terms &terms_;
  std::map<const FusionTensor *, uint32_t> numbers_; ///< the inputs' numbers
  /// Terms that are known already. Tensors that are equal on all ranks are under rank -1.
  std::map<std::tuple<const FusionTensor *, int64_t, uint32_t, Rounding>, Pieces> known_;
  std::map<TermId, PartialResult> partials_;
};

} // namespace braid::checker
