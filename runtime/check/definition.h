//===- runtime/check/definition.h - the contents of a fusion's tensors as terms ---------------===//
#pragma once

#include "ir/fusion.h"
#include "runtime/check/terms.h"

namespace braid::checker {

/// One device's partial result of a sum over devices.
struct PartialResult {
  const FusionTensor *tensor;
  int64_t rank;
  uint32_t run; ///< 0, 1, ...
};

/// Computes the contents of a fusion's tensors on each rank as terms, from the definition alone.
class Definition {
public:
  Definition(const Fusion &fusion, Terms &terms);

  /// Returns the reason if the definition cannot be followed, else an empty string. Must be called
  /// first.
  std::string whyNot() const;
  const Pieces &contents(const FusionTensor &tensor, int64_t rank, uint32_t run);
  /// Returns null if the term is not a partial result of any contents computed so far.
  const PartialResult *partialResult(TermId term) const;

private:
  /// Done: the declared type of a tensor. NotYet: the type of the accumulator, before rounding, for
  /// a tensor that is computed.
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
  std::map<const FusionTensor *, uint32_t> numbers_; ///< the parameter numbers of the inputs
  /// Computed contents. Tensors that are equal on all ranks are stored with rank -1.
  std::map<std::tuple<const FusionTensor *, int64_t, uint32_t, Rounding>, Pieces> known_;
  std::map<TermId, PartialResult> partials_;
};

} // namespace braid::checker
