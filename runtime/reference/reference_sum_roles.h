//===- runtime/reference/reference_sum_roles.h - which inputs make sums over devices ----------===//
#pragma once

#include "runtime/reference/reference_sum_pattern.h"

namespace braid::reference {

/// What all biases of a chain may add to 2 * 121, or to the terms of a sum.
constexpr int64_t kBiasBudget = 13;
/// The bound of a bias that is in every rank's partial result.
constexpr int64_t kProducerBias = 1;

/// Finds the GEMMs that are summed over devices, and the inputs that hold the terms: the first
/// operand, or that of the GEMM which produces the first operand.
class SumRoles {
public:
  /// `graph` outlives this.
  explicit SumRoles(const Graph &graph);

  bool hasAny() const { return ranks_ > 1; }
  /// The layout of a GEMM's first operand, if that is an input that holds terms; or null.
  const SumLayout *layoutOf(const Gemm &gemm) const;
  Contributions contributions(const SumLayout &layout) const;
  /// The GEMM whose columns are the depth of a sum, if it has no operands but inputs; or null.
  const Gemm *producerOf(const Gemm &gemm) const;
  /// How the columns of a GEMM are distributed; where a sum contracts them, as its shards are.
  Placement columnsOf(const Gemm &gemm) const;
  /// A bias of a producer is a part of every rank's partial result.
  bool isBiasOfProducer(size_t tensor) const;

private:
  void layOut(const Gemm &sum);

  const Graph &graph_;
  int64_t ranks_ = 1;                             ///< the mesh size if there is a sum
  bool hasBiasedSums_ = false;                    ///< some producer has a bias
  std::vector<std::optional<SumLayout>> layouts_; ///< by tensor
};

} // namespace braid::reference
