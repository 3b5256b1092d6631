//===- runtime/execute/pending_report.h - what a run that stands still waits for, in words ----===//
#pragma once

#include "runtime/execute/device.h"

#include <string>
#include <vector>

namespace braid {

/// A wait at the head of a stream of `rank`.
struct BlockedHead {
  int64_t rank;
  PendingWait wait;
};

/// The waits of all ranks of a group.
struct StallReport {
  std::string headline;           ///< "no progress for 200 ms"
  std::vector<BlockedHead> heads; ///< in any order
  std::vector<std::string> notes; ///< about ranks that are not held up by a stream
};

/// At most this many lines of waits are shown.
inline constexpr size_t kMaxReportedWaits = 16;

/// `rank 1 waits for rank 2 in "%r = p2p recv ..." (trip 3) at deadlock.braid:12:5, run 1`; a wait
/// for an event names the stream of the same rank that records it.
std::string describe(const BlockedHead &head);

/// The headline, then a line for each wait, those for peers first, by rank and stream; then the
/// notes.
std::string str(const StallReport &report);

} // namespace braid
