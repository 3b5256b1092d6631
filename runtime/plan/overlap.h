//===- runtime/plan/overlap.h - which transfers of a Plan run beside a GEMM -------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// A transfer that this rank issues from or to a peer: a copy, a GEMM that stores at the peer, one
/// message of a group, or a collective.
struct PlanTransfer {
  uint32_t origin; ///< index into Plan::origins
  /// A GEMM of this rank may run at the same time: streams, events and signals leave the two
  /// unordered, or the transfer is that GEMM.
  bool isBesideGemm;
  bool isBetweenGemms; ///< on its stream one ends before it begins, another begins after it
};

/// All transfers of one run, in issue order. Only the order that the Plan enforces is read, never
/// what was asked of lowering.
///
/// Ranks are assumed to keep pace: the k-th await of a channel and a direction passes no earlier
/// than this rank gives its own k-th signal of that channel and the opposite direction. Without
/// that, a copy that only waits for a peer's GEMM would count as overlapping with this rank's own
/// GEMM, which ends at the same time.
std::vector<PlanTransfer> transfersOf(const Plan &plan);

} // namespace braid
