//===- api/view/critical_path.h - the critical path of a run ----------------------------------===//
#pragma once

#include "api/view/page.h"

namespace braid::view {

/// Finds the critical path by walking backwards from the command that ends last. The predecessor of
/// a command is the previous command on its stream or the command that it waits for, whichever ends
/// later. Gaps become steps named `timing.gap`. Sets `timing.critical` and `timing.total`.
void findCriticalPath(const Page &page, Timing &timing);

/// Returns a sentence such as "the critical path of 193.2 µs is 84 % GEMM, 9 % copy", which lists
/// kinds of 0.5 % or more, longest first. Returns an empty string if there is no critical path.
std::string whatLimits(const Timing &timing, const std::string &unit);

} // namespace braid::view
