//===- tests/support/message_cluster.h - CPU ranks that send each other messages --------------===//
//
// What a library of messages guarantees, and no more: an operation of a rank begins when the one
// before it is over and all that its stream has to wait for; a group is over when all its messages
// have met, and a collective when all members have come. Other streams go on meanwhile.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid::test {

/// A backend like cpu, whose ranks reach each other and send messages; the latter unless another
/// transport is asked for. `dumb` is a rank that cannot send any. It outlives its clusters.
Backend messageBackend(int64_t dumb = -1);

} // namespace braid::test
