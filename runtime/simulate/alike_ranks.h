//===- runtime/simulate/alike_ranks.h - ranks that do the same are simulated once -------------===//
//
// Rank r does what rank r - d does, moved by d, if its Plan has the same commands with the same
// sizes, and every peer is d further on around the mesh; or what rank r xor d does, if every peer
// is that one's xor d (runtime/plan/shift.h). If each rank does what the first one of its period
// does, the Plans of one period are enough: at every moment all ranks of a kind are at the same
// point, so a signal that rank 0 gives to rank 3 comes back to rank 0 from rank -3.
//
// On several hosts, a period has whole hosts. Groups of messages move with their ranks; the
// team of a collective moves onto itself.
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

/// An endpoint among those of a period of ranks: its rank in the period, its direction, its peer,
/// its channel and its sequence number.
using EndpointKey = std::tuple<int64_t, Direction, int64_t, uint32_t, uint32_t>;
EndpointKey keyOf(const Plan &plan, const Endpoint &endpoint);
/// The key of the endpoint that meets it, where `period` ranks stand for all.
EndpointKey partnerKeyOf(const Plan &plan, const Endpoint &endpoint, int64_t period);

/// The Plan of a rank.
using PlanOfRank = llvm::function_ref<Result<Plan>(int64_t rank)>;

/// The Plans of ranks 0 to P-1, with their shift, for the first P of `periods` whose ranks stand
/// for all; none if there is no such period. Messages are never xored. Plans that are not kept
/// exist one at a time. If `most` is not 0, about that many ranks are compared, the last included.
Result<std::vector<Plan>> plansOfPeriod(int64_t ranks, llvm::ArrayRef<int64_t> periods,
                                        PlanOfRank planOfRank, int64_t most = 0,
                                        const ProgressFn &progress = {});

} // namespace braid
