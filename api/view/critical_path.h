//===- api/view/critical_path.h - what the time of a run is made of ---------------------------===//
#pragma once

#include "api/view/page.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid::view {

/// Walks from the command that ends last back to the beginning. Each step leads to the command that
/// ended later: the one before on the same stream, or the one that was waited for. The time between
/// the two is called `timing.gap`. Fills `timing.critical` and `timing.total`.
void findCriticalPath(const Page &page, Timing &timing);

/// The parts of a critical path by name, "GEMM", with their times, the longest first.
std::vector<std::pair<std::string, double>> partsOf(const Timing &timing);

/// "84 % GEMM, 9 % copy, 7 % signal": the parts of half a percent or more.
std::string sharesText(llvm::ArrayRef<std::pair<std::string, double>> parts);

/// "the critical path of 193.2 µs is 84 % GEMM, 9 % copy, 7 % signal"; empty without a path.
std::string whatLimits(const Timing &timing, const std::string &unit);

} // namespace braid::view
