//===- runtime/tune/find_fastest.h - finds the fastest of several candidates ------------------===//
//
// Times vary with clock rate, temperature and other load. The fastest few candidates are therefore
// measured alternately, in several rounds. The first candidate, which is the default without
// measurements, is replaced only if another candidate is faster by more than the measurement noise.
//
// Times may also depend on other conditions. If candidates are measured under several conditions,
// each candidate is rated by its worst time relative to the first candidate's time in the same
// round, because the replacement must not be slower under any condition.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <chrono>
#include <functional>
#include <vector>

namespace braid {

/// The first pass measures every candidate once, possibly only briefly. The final pass compares the
/// fastest few candidates.
enum class FindPass : uint8_t { First, Final };

/// Measures candidate `number`. Returns positive times in any unit, one per condition (at least
/// one); in the final pass, all candidates have the same number of times. The first pass uses only
/// the first time. Returning Unsupported drops the candidate; any other failure ends the search.
using MeasureCandidate = std::function<Result<std::vector<double>>(size_t number, FindPass pass)>;

struct FindLimits {
  std::chrono::nanoseconds atMost;
  double leastGain = 0.005; ///< minimum relative gain for replacing candidate 0
};

/// Returns the number of the fastest among candidates 0 .. count-1. Promising candidates should
/// come first, because the last candidates are skipped if time is short. Candidate 0 is replaced
/// only by a clearly faster candidate. Takes about `atMost`, or longer if `atMost` is too short to
/// compare two candidates. Returns Unsupported if no candidate can be measured.
Result<size_t> findFastest(size_t count, const MeasureCandidate &measure, const FindLimits &limits,
                           const std::function<std::chrono::steady_clock::time_point()> &now =
                               std::chrono::steady_clock::now);

} // namespace braid
