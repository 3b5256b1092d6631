//===- runtime/plan/specialize.h - Program -> Plan for one rank -------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Unrolls `program` (verified) for `rank`. What only unrolling can show (an index out of bounds,
/// a peer outside the mesh, shapes that differ in some trip, a request waited for twice) is
/// reported to `diags`, with the rank and the trip; nothing is returned then. Nodes this version
/// cannot execute give Unsupported with their place.
///
/// `transport` is that between ranks of one host; ranks of different hosts send messages. Over
/// peers' memory a collective becomes copies, signals and awaits among the members, and sums in the
/// order of the team. One whose team is on several hosts stays whole. P2p nodes between which this
/// rank issues nothing make one group of messages; plan.h says what comes before and behind it.
/// `operands` are those of collectives over messages.
/// Unsupported: a send of what is computed at the peer, if that is reached by messages.
///
/// Placement: buffers lie in their arena in the order allocated, aligned to 256 bytes. Memory of a
/// deallocated device buffer is given only to a buffer allocated later on the same stream, so that
/// stream order alone makes the reuse safe; symmetric memory is never reused.
Result<Plan> specialize(const Program &program, int64_t rank, Diagnostics &diags,
                        Transport transport = Transport::PeerMemory,
                        Operands operands = Operands::Anywhere);

} // namespace braid
