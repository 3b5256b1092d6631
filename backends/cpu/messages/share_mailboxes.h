//===- backends/cpu/messages/share_mailboxes.h - mailboxes of ranks that are processes --------===//
#pragma once

#include "backends/cpu/messages/mailboxes.h"
#include "runtime/job/process_group.h"

namespace braid {

/// Rank 0 makes the mailboxes, and all ranks map them. Collective. Unsupported where rank 0 is on
/// another machine.
Result<std::shared_ptr<Mailboxes>> shareMailboxes(ProcessGroup &group);

} // namespace braid
