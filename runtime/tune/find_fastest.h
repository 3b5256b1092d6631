//===- runtime/tune/find_fastest.h - the fastest of several ways to do something --------------===//
//
// Times vary with clocks, neighbours and temperature. So the best few candidates are compared in
// turns, and the first one, which the caller would take without measuring, is replaced only by one
// that is faster by more than the noise.
//
// Times also depend on the surroundings. If candidates are measured under several conditions, each
// is judged by its worst one, relative to the first candidate in the same round: the replacement
// must not be slower under any condition.
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

/// Measures candidate `number`. Returns times in any unit above 0, one for each condition: at least
/// one, and in the final pass equally many for every candidate. The first pass uses the first time
/// only. Unsupported drops the candidate. Any other failure ends the search.
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
