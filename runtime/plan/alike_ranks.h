//===- runtime/plan/alike_ranks.h - ranks that differ only in their peers ---------------------===//
//
// In most programs, rank r does the same as rank 0, shifted around the mesh: where rank 0 waits for
// rank 3, rank 5 waits for rank 8, or, with xor, for rank 6, which is 5 xor 3 (shift.h). Plans that
// are equal in this sense have equal outlines. If each rank's outline equals that of the
// corresponding rank of the first period, the Plans of this period determine what all ranks do and
// in which order: a transfer from rank 0 to rank 3 implies one from rank -3 to rank 0.
//
// On several hosts, a period may be the ranks of one host. The ranges that commands access differ
// between alike ranks, because a rank's own block lies elsewhere; their sizes do not.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"
#include "runtime/progress.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <tuple>

namespace braid {

/// All numbers that determine the order and the duration of a rank's commands, with peers numbered
/// relative to the rank. Excludes the numbers that say which endpoint of a peer matches an
/// endpoint.
using Outline = std::vector<int64_t>;
Outline outlineOf(const Plan &plan, Shift shift);

/// The first `period` ranks represent all ranks, shifted by multiples of `period`.
struct Alike {
  int64_t period = 1;
  Shift shift = Shift::Add;
};

/// Finds the smallest period, one rank or the ranks of one host, that represents all ranks under
/// one of these shifts; otherwise the period is all ranks. `ranksPerHost` may be 0. If `most` is
/// not 0, compares only about that many ranks, including the last one.
Result<Alike>
findAlike(int64_t ranks, int64_t ranksPerHost, llvm::ArrayRef<Shift> shifts,
          llvm::function_ref<Result<Outline>(int64_t rank, Shift shift)> outlineOfRank,
          int64_t most = 0, const ProgressFn &progress = {});

/// Identifies an endpoint among those of a period: rank within the period, direction, peer, channel
/// and sequence number.
using EndpointKey = std::tuple<int64_t, Direction, int64_t, uint32_t, uint32_t>;
EndpointKey keyOf(const Plan &plan, const Endpoint &endpoint);
/// Returns the key of the matching endpoint if `period` ranks represent all.
EndpointKey partnerKeyOf(const Plan &plan, const Endpoint &endpoint, int64_t period);

} // namespace braid
