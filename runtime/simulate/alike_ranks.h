//===- runtime/simulate/alike_ranks.h - ranks that do the same are simulated once -------------===//
//
// Rank r does what rank r - d does, moved by d, if its Plan has the same commands with the same
// sizes, and every peer is d further on around the mesh; or what rank r xor d does, if every peer
// is that one's xor d (runtime/plan/shift.h). If each rank does what the first one of its period
// does, all ranks of a kind are at the same point at every moment of a simulation, which knows no
// noise: a signal that rank 0 gives to rank 3 is given to rank 0 at the same moment, by
// rank -3. So the Plans of one period are enough: what goes to a peer comes back to the rank of the
// period that stands for it. As many copies leave a rank, and reach it, as in the whole job.
//
// Ranks of several hosts do so host by host: a period has whole hosts, and the network of each of
// them has as many messages as in the whole job. A group of messages, too, is that of its rank
// moved; the team of a collective is moved onto itself.
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
/// That of the endpoint on its peer, if `period` ranks stand for all of them; as many as there are
/// ranks: each stands for itself.
EndpointKey partnerKeyOf(const Plan &plan, const Endpoint &endpoint, int64_t period);

/// Whether `plan` does what `other` does, shifted from its rank to that of `plan`. What is sent as
/// messages is never xored.
bool isMoved(const Plan &plan, const Plan &other, Shift shift = Shift::Add);

/// The Plan of a rank.
using PlanOfRank = llvm::function_ref<Result<Plan>(int64_t rank)>;

/// The Plans of ranks 0 to period-1, with their shift, for the first of `periods` for which every
/// rank does what the one of its period does; none if there is no such period. Plans that are not
/// kept are there one at a time. With `most` not 0 about so many ranks are compared, the last one
/// among them.
Result<std::vector<Plan>> plansOfPeriod(int64_t ranks, llvm::ArrayRef<int64_t> periods,
                                        PlanOfRank planOfRank, int64_t most = 0,
                                        const ProgressFn &progress = {});

} // namespace braid
