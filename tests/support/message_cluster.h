//===- tests/support/message_cluster.h - CPU ranks that send each other messages --------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid::test {

/// Returns a backend named "messages": the cpu backend with messages as its default transport. Rank
/// `dumb` cannot send messages. The backend must outlive its clusters.
Backend messageBackend(int64_t dumb = -1);

} // namespace braid::test
