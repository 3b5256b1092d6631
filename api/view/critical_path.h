//===- api/view/critical_path.h - the critical path of a run ----------------------------------===//
#pragma once

#include "api/view/page.h"

namespace braid::view {

/// Finds the critical path, backwards from the command that ends last. Each step leads to the
/// predecessor that ended later: the command before on the same stream, or the one that was waited
/// for. The time between the two is called `timing.gap`. Sets `timing.critical` and `timing.total`.
void findCriticalPath(const Page &page, Timing &timing);

/// Returns "the critical path of 193.2 µs is 84 % GEMM, 9 % copy": the parts of at least half a
/// percent, the longest first. Returns an empty string without a path.
std::string whatLimits(const Timing &timing, const std::string &unit);

} // namespace braid::view
