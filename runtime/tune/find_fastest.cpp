//===- runtime/tune/find_fastest.cpp - finds the fastest of several candidates ----------------===//

#include "runtime/tune/find_fastest.h"

#include "ir/failure.h"
#include "runtime/tune/median.h"

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

constexpr size_t kFinalists = 2; ///< number of finalists besides candidate 0
/// Two rounds are too few: the median would be the larger value, and the spread meaningless.
constexpr int kLeastRounds = 3, kMostRounds = 11;
constexpr double kNoise = 1.5;     ///< a difference counts if it exceeds the spread by this factor
constexpr double kFirstPass = 0.4; ///< the first pass's share of the time budget

/// Returns the median of the absolute deviations of the values from their median.
double spread(const std::vector<double> &values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (double value : values)
    distances.push_back(std::abs(value - middle));
  return median(distances);
}

struct Candidate {
  size_t number;
  double once;                     ///< time in the first pass
  std::vector<double> rounds = {}; ///< worst ratio to the first candidate's time, for each round
};

double worstShare(const std::vector<double> &times, const std::vector<double> &ofFirst) {
  double worst = 0;
  for (size_t i = 0; i < times.size(); ++i)
    worst = std::max(worst, times[i] / ofFirst[i]);
  return worst;
}

/// Returns true if the gain clearly exceeds its variation. Among many equal candidates, one is
/// always fastest by chance.
bool isClearlyFaster(const Candidate &candidate, double leastGain) {
  return 1 - median(candidate.rounds) > std::max(kNoise * spread(candidate.rounds), leastGain);
}

/// Keeps candidate 0, if it could be measured, and the fastest kFinalists other candidates.
void keepFinalists(std::vector<Candidate> &candidates) {
  auto comesFirst = [](const Candidate &a, const Candidate &b) {
    return (a.number == 0) != (b.number == 0) ? a.number == 0 : a.once < b.once;
  };
  std::stable_sort(candidates.begin(), candidates.end(), comesFirst);
  if (candidates.size() > kFinalists + 1)
    candidates.erase(candidates.begin() + kFinalists + 1, candidates.end());
}

/// Measures each candidate in turn, so that drift over time does not favor any candidate.
Status measureRound(std::vector<Candidate> &candidates, const MeasureCandidate &measure) {
  std::vector<double> ofFirst;
  for (Candidate &candidate : candidates) {
    std::vector<double> times = BRAID_TRY(measure(candidate.number, FindPass::Final));
    if (ofFirst.empty())
      ofFirst = times;
    candidate.rounds.push_back(worstShare(times, ofFirst));
  }
  return Status::ok();
}

} // namespace

Result<size_t> findFastest(size_t count, const MeasureCandidate &measure, const FindLimits &limits,
                           const std::function<std::chrono::steady_clock::time_point()> &now) {
  // Returns true if `share` of the time budget has elapsed.
  auto isOver = [&, begin = now()](double share) { return now() - begin >= share * limits.atMost; };
  std::vector<Candidate> candidates;
  for (size_t number = 0; number < count; ++number) {
    if (candidates.size() >= 2 && isOver(kFirstPass))
      break;
    Result<std::vector<double>> times = measure(number, FindPass::First);
    if (times)
      candidates.push_back({number, times->front()});
    else if (times.status().code() != StatusCode::Unsupported)
      return times.status();
  }
  if (candidates.empty())
    return unsupported("none of the candidates could be measured");
  keepFinalists(candidates);
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && !isOver(1)); ++round)
    BRAID_TRY(measureRound(candidates, measure));
  auto isFaster = [](const Candidate &a, const Candidate &b) {
    return median(a.rounds) < median(b.rounds);
  };
  const Candidate &best = *std::min_element(candidates.begin(), candidates.end(), isFaster);
  return isClearlyFaster(best, limits.leastGain) ? best.number : candidates.front().number;
}

} // namespace braid
