//===- runtime/plan/specialize.h - Program -> Plan for one rank -------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"

namespace braid {

/// Unrolls the verified `program` for `rank`. If unrolling detects an error (an out-of-bounds
/// index, a peer outside the mesh, shapes that do not match in some trip, a second wait for a
/// request), reports the error with the rank and the trip to `diags` and returns no Plan. Fails
/// with Unsupported, naming the source location, for nodes that this version cannot execute.
///
/// `transport` applies to ranks on one host; ranks on different hosts always exchange messages. A
/// collective over peer memory is expanded into copies, signals and awaits among the members, and
/// sums in team order, unless its team spans hosts. Consecutive p2p nodes form one group of
/// messages; plan.h describes the commands around the group. Fails with Unsupported if a GEMM would
/// store its result at a peer that can be reached only by messages.
///
/// Places buffers in their arenas in allocation order, aligned to 256 bytes. The memory of a
/// deallocated device buffer is reused only by a buffer allocated later on the same stream, so
/// stream order alone makes the reuse safe. Symmetric memory is never reused.
Result<Plan> specialize(const Program &program, int64_t rank, Diagnostics &diags,
                        Transport transport = Transport::PeerMemory);

} // namespace braid
