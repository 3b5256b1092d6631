//===- backends/cpu/messages/connect_processes.h - connections between the ranks of a job -----===//
//
// Within a host by socket pairs, which the host's rendezvous hands over. Between hosts by TCP: each
// rank listens at its host's address for higher ranks of other hosts, and all ranks tell each other
// where. Who connects and who accepts prove to each other that they know the job's key, which rank
// 0 draws: see runtime/job/network/handshake.h.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/messages/carrier.h"
#include "runtime/job/process_group.h"

namespace braid {

/// One for each rank of the job, but for this one. Collective; blocks until all are connected, the
/// job is aborted, or its timeout.
Result<std::vector<std::unique_ptr<Carrier>>> connectProcesses(ProcessGroup &group);

} // namespace braid
