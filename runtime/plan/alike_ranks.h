//===- runtime/plan/alike_ranks.h - ranks that differ only in their peers ---------------------===//
//
// In most programs, all ranks run the same commands with shifted peers. If rank 0 waits for rank 3,
// for example, rank 5 waits for rank 8 or, with an xor shift, for rank 6 (5 xor 3; see shift.h).
// Plans that differ only by a shift have equal outlines. If the outlines repeat with a period of n
// ranks, the Plans of the first n ranks determine the commands of all ranks and their order. In a
// mesh of 8 ranks, for example, a transfer from rank 0 to rank 3 implies a transfer from rank 5 to
// rank 0.
//
// If the ranks span several hosts, the period may be the number of ranks per host. Alike ranks
// access ranges of equal size at different offsets, because each rank owns a different block.
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

/// The data that determines the order and duration of a rank's commands, with peers relative to the
/// rank. Excludes channel and sequence numbers, which only serve to match endpoints.
using Outline = std::vector<int64_t>;
Outline outlineOf(const Plan &plan, Shift shift);

/// The Plans of all ranks are those of the first `period` ranks, shifted by multiples of `period`.
struct Alike {
  int64_t period = 1;
  Shift shift = Shift::Add;
};

/// Finds a period whose ranks represent all ranks under one of `shifts`: 1 if possible, otherwise
/// the number of ranks per host, and otherwise the number of all ranks. `ranksPerHost` may be 0. If
/// `most` is nonzero, compares only about `most` ranks, including the last one.
Result<Alike>
findAlike(int64_t ranks, int64_t ranksPerHost, llvm::ArrayRef<Shift> shifts,
          llvm::function_ref<Result<Outline>(int64_t rank, Shift shift)> outlineOfRank,
          int64_t most = 0, const ProgressFn &progress = {});

/// Identifies an endpoint within a period: rank within the period, direction, peer, channel and
/// sequence number.
using EndpointKey = std::tuple<int64_t, Direction, int64_t, uint32_t, uint32_t>;
EndpointKey keyOf(const Plan &plan, const Endpoint &endpoint);
/// Returns the key of the peer's matching endpoint, given that `period` ranks represent all ranks.
EndpointKey partnerKeyOf(const Plan &plan, const Endpoint &endpoint, int64_t period);

} // namespace braid
