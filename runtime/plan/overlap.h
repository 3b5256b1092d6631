//===- runtime/plan/overlap.h - transfers of a Plan that overlap with a GEMM ------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// A transfer that this rank issues: a copy from or to a peer, a GEMM that stores into peer memory,
/// one message of a group, or a collective.
struct PlanTransfer {
  uint32_t origin; ///< index into Plan::origins
  /// True if a GEMM of this rank may run concurrently with the transfer: streams, events and
  /// signals do not order the two, or the transfer is itself a GEMM.
  bool isBesideGemm;
  bool isBetweenGemms; ///< true if its stream has GEMMs both before and after it
};

/// Returns all transfers of one run, in issue order. The result depends only on the ordering that
/// the Plan enforces, not on lowering options.
///
/// Assumes that ranks advance at the same pace: the k-th await for a channel and direction
/// completes no earlier than this rank's k-th signal for that channel in the opposite direction.
/// Otherwise, a copy that waits only for a peer's GEMM would appear to overlap with this rank's own
/// GEMM, although both GEMMs end at the same time, before the copy starts.
std::vector<PlanTransfer> transfersOf(const Plan &plan);

} // namespace braid
