//===- runtime/plan/specialize.h - Program -> Plan for one rank -------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Unrolls `program` (verified) for `rank`. Reports errors that only unrolling can show (an index
/// out of bounds, a peer outside the mesh, shapes that differ in some trip, a request waited for
/// twice) to `diags`, with the rank and the trip, and then returns no Plan. Fails with Unsupported,
/// naming the place, for nodes that this version cannot execute.
///
/// `transport` applies to ranks of one host; ranks of different hosts send messages. Over peer
/// memory, a collective becomes copies, signals and awaits among the members, and sums in team
/// order, but stays whole if its team is on several hosts. P2p nodes between which this rank issues
/// nothing form one group of messages; plan.h describes the commands around it. Fails with
/// Unsupported if a GEMM would store its result at a peer that is reached by messages.
///
/// Buffers are placed in their arena in the order of allocation, aligned to 256 bytes. Memory of a
/// deallocated device buffer is reused only by a buffer allocated later on the same stream, so
/// stream order alone makes the reuse safe; symmetric memory is never reused.
Result<Plan> specialize(const Program &program, int64_t rank, Diagnostics &diags,
                        Transport transport = Transport::PeerMemory);

} // namespace braid
