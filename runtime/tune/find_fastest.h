//===- runtime/tune/find_fastest.h - the fastest of several ways to do something --------------===//
//
// What is measured varies: clocks, neighbours, temperature. So the best few are compared in turn,
// and the first way, which the caller would take without measuring, is left only for one that is
// faster by more than the noise.
//
// What is fast also depends on what surrounds it. Where candidates are measured under several
// conditions, each counts as its worst one, beside the first way in the same round: who leaves the
// first way must not be worse off under any.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <chrono>
#include <functional>
#include <vector>

namespace braid {

/// A first look at all, which may be short, or the comparison of the best few.
enum class FindPass : uint8_t { First, Final };

/// How long candidate `number` takes, in any unit above 0: at least one time, and in the final pass
/// as many for every candidate, each under conditions of its own. The first pass uses the first
/// only. Unsupported: it cannot be done this way after all. Any other failure ends the search.
using MeasureCandidate = std::function<Result<std::vector<double>>(size_t number, FindPass pass)>;

struct Fastest {
  size_t number;
  double time; ///< the median, under the first conditions
};

struct FindLimits {
  std::chrono::nanoseconds atMost;
  double leastGain = 0.005; ///< that counts as faster, however low the noise seems
};

/// The fastest of candidates 0 .. count-1, of which earlier ones are expected to be better: if
/// there is no time for all, the last ones are left out. Candidate 0 is the one that needs a reason
/// to be left. Takes about `atMost`, or longer if that is too short to compare two. Unsupported if
/// no candidate can be measured.
Result<Fastest> findFastest(size_t count, const MeasureCandidate &measure, const FindLimits &limits,
                            const std::function<std::chrono::steady_clock::time_point()> &now =
                                std::chrono::steady_clock::now);

} // namespace braid
