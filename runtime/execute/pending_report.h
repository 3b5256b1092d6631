//===- runtime/execute/pending_report.h - what a run that stands still waits for, in words ----===//
#pragma once

#include "runtime/execute/device.h"

#include <string>
#include <vector>

namespace braid {

/// `"%r = p2p recv ..." (trip 3) at deadlock.braid:12:5, run 1`.
std::string commandText(const Plan &plan, uint32_t command, uint32_t run);

/// The same; `a command of no plan, run 1` where the Plan is not known.
std::string describe(const Tag &tag);

/// `rank 2 in "%r = p2p recv ..." ...`, for a command that waits. A wait for an event names the
/// stream of the same rank that records it.
std::string waitText(const Plan &plan, uint32_t command, uint32_t run);

/// A wait at the head of a stream of `rank`.
struct BlockedHead {
  int64_t rank;
  PendingWait wait;
};

/// At most this many lines of waits are shown.
inline constexpr size_t kMaxReportedWaits = 16;

/// The headline, as "no progress for 200 ms"; then a line for each wait, those for peers first;
/// then the notes, about ranks that are not held up by a stream.
std::string stallText(std::string headline, std::vector<BlockedHead> heads,
                      const std::vector<std::string> &notes);

} // namespace braid
