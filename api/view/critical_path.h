//===- api/view/critical_path.h - what the time of a run is made of ---------------------------===//
#pragma once

#include "api/view/page.h"

namespace braid::view {

/// From the command that ends last back to the beginning: what had to be over before each command
/// could begin, the command before it on its stream or what it waited for, whichever was later.
/// Gaps between the two are `timing.gap`. Fills `timing.critical` and `timing.total`.
void findCriticalPath(const Page &page, Timing &timing);

/// What a critical path is made of: "GEMM" with its time, the largest first.
std::vector<std::pair<std::string, double>> partsOf(const Timing &timing);

/// "the critical path of 193.2 µs is 84 % GEMM, 9 % copy, 7 % signal"; empty without a path.
std::string whatLimits(const Timing &timing, const std::string &unit);

} // namespace braid::view
