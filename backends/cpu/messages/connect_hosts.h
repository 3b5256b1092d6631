//===- backends/cpu/messages/connect_hosts.h - connections between ranks of different hosts ---===//
#pragma once

#include "backends/cpu/messages/carrier.h"
#include "runtime/job/process_group.h"

namespace braid {

/// The places of ranks of other hosts in `carriers`, which is by rank. As connectProcesses().
Status connectHosts(ProcessGroup &group, std::vector<std::unique_ptr<Carrier>> &carriers);

} // namespace braid
