//===- tests/support/message_cluster.h - CPU ranks that send each other messages --------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid::test {

/// The cpu backend as one whose ranks send messages unless another transport is asked for, by the
/// name "messages". `dumb` is a rank that cannot send any. It outlives its clusters.
Backend messageBackend(int64_t dumb = -1);

} // namespace braid::test
