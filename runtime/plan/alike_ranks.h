//===- runtime/plan/alike_ranks.h - ranks that do the same, each with other peers -------------===//
//
// In most programs rank r does what rank 0 does, moved around the mesh: where rank 0 waits for
// rank 3, rank 5 waits for rank 8; or for rank 6, which is 5 xor 3 (shift.h). Plans that are equal
// in this sense have equal outlines. If each rank's outline is that of the first rank of its
// period, the Plans of one period show when and in which order all ranks act: whatever rank 0
// gives to rank 3, rank -3 gives to rank 0.
//
// On several hosts a period may have the ranks of a host. The bytes that commands touch differ
// between alike ranks, since a rank's own block lies elsewhere; their number does not.
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

/// All numbers on which the order of a rank's commands depends, and their times, with peers as seen
/// from the rank; but for those that say which endpoint of a peer meets an endpoint.
using Outline = std::vector<int64_t>;
Outline outlineOf(const Plan &plan, Shift shift);

/// The first `period` ranks stand for all, shifted by whole blocks of that many.
struct Alike {
  int64_t period = 1;
  Shift shift = Shift::Add;
};

/// Looks for the smallest block, of one rank or of the ranks of a host, that stands for all ranks,
/// shifted in one of these ways; without any, the period is all ranks. `ranksPerHost` may be 0. If
/// `most` is not 0, about that many ranks are compared, the last one included.
Result<Alike>
findAlike(int64_t ranks, int64_t ranksPerHost, llvm::ArrayRef<Shift> shifts,
          llvm::function_ref<Result<Outline>(int64_t rank, Shift shift)> outlineOfRank,
          int64_t most = 0, const ProgressFn &progress = {});

/// An endpoint among those of a period of ranks: its rank in the period, its direction, its peer,
/// its channel and its sequence number.
using EndpointKey = std::tuple<int64_t, Direction, int64_t, uint32_t, uint32_t>;
EndpointKey keyOf(const Plan &plan, const Endpoint &endpoint);
/// The key of the endpoint that meets it, where `period` ranks stand for all.
EndpointKey partnerKeyOf(const Plan &plan, const Endpoint &endpoint, int64_t period);

} // namespace braid
