//===- runtime/reference/reference_sum_roles.cpp - which inputs make sums over devices --------===//
#include "runtime/reference/reference_sum_roles.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid::reference {

namespace {

bool isSummed(const Gemm &gemm) { return gemm.shards > 1; }

} // namespace

SumRoles::SumRoles(const Graph &graph) : graph_(graph), layouts_(graph.tensors.size()) {
  for (const Gemm &gemm : graph_.gemms) {
    if (!isSummed(gemm))
      continue;
    ranks_ = gemm.shards;
    layOut(gemm);
  }
}

/// With several sums of one input, the smallest number of vectors suits all.
void SumRoles::layOut(const Gemm &sum) {
  const Gemm *producer = producerOf(sum);
  const size_t holder = producer ? producer->first : sum.first;
  if (!graph_.tensors[holder].input || !graph_.tensors[sum.second].input)
    return;
  hasBiasedSums_ |= producer && producer->bias;
  const SumLayout layout =
      producer ? SumLayout::ofProducer(*producer, sum.shards) : SumLayout::ofSum(sum);
  std::optional<SumLayout> &slot = layouts_[holder];
  if (!slot || slot->vectors > layout.vectors)
    slot = layout;
}

const SumLayout *SumRoles::layoutOf(const Gemm &gemm) const {
  const std::optional<SumLayout> &layout = layouts_[gemm.first];
  return layout ? &*layout : nullptr;
}

/// Ranks share terms where a row has fewer of them than there are ranks.
Contributions SumRoles::contributions(const SumLayout &layout) const {
  const int64_t biases = hasBiasedSums_ ? kProducerBias * ranks_ : 0;
  const int64_t budget = 256 - kBiasBudget - biases;
  return {layout.places(), layout.places() == 1 ? budget / ranks_ : budget};
}

const Gemm *SumRoles::producerOf(const Gemm &gemm) const {
  const std::optional<size_t> index = graph_.tensors[gemm.first].gemm;
  if (!isSummed(gemm) || !index)
    return nullptr;
  const Gemm &producer = graph_.gemms[*index];
  const bool isSimple = !isSummed(producer) && producer.columns == gemm.depth &&
                        graph_.tensors[producer.first].input &&
                        graph_.tensors[producer.second].input;
  return isSimple ? &producer : nullptr;
}

Placement SumRoles::columnsOf(const Gemm &gemm) const {
  for (const Gemm &sum : graph_.gemms)
    if (producerOf(sum) == &gemm)
      return {1, sum.shards, sum.shardDepth()};
  return gemm.columnPlacement;
}

bool SumRoles::isBiasOfProducer(size_t tensor) const {
  return llvm::any_of(graph_.gemms, [&](const Gemm &sum) {
    const Gemm *producer = producerOf(sum);
    return producer && producer->bias == tensor;
  });
}

} // namespace braid::reference
