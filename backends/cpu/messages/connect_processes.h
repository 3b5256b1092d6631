//===- backends/cpu/messages/connect_processes.h - sockets between the ranks of a host --------===//
#pragma once

#include "runtime/job/process_group.h"

namespace braid {

/// A connected stream socket for each rank of the job, but for this one: made by the lower rank of
/// each pair, and handed over by the job's host. Collective; blocks.
Result<std::vector<FileDescriptor>> connectByDescriptors(ProcessGroup &group);

} // namespace braid
