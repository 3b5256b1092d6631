//===- runtime/tune/find_fastest.cpp - finds the fastest of several candidates ----------------===//

#include "runtime/tune/find_fastest.h"

#include "ir/failure.h"
#include "runtime/tune/median.h"

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

constexpr size_t kFinalists = 2; ///< in addition to candidate 0
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

class Search {
public:
  Search(const MeasureCandidate &measure, const FindLimits &limits,
         const std::function<std::chrono::steady_clock::time_point()> &now)
      : measure_(measure), limits_(limits), now_(now), begin_(now()) {}

  Status measureAll(size_t count);
  void keepFinalists();
  Status compareFinalists();
  size_t winner() const;

private:
  /// Returns true if `share` of the time budget has elapsed.
  bool isOver(double share) const { return now_() - begin_ >= share * limits_.atMost; }

  const MeasureCandidate &measure_;
  const FindLimits &limits_;
  const std::function<std::chrono::steady_clock::time_point()> &now_;
  const std::chrono::steady_clock::time_point begin_;
  std::vector<Candidate> candidates_;
};

Status Search::measureAll(size_t count) {
  for (size_t number = 0; number < count; ++number) {
    if (candidates_.size() >= 2 && isOver(kFirstPass))
      break;
    Result<std::vector<double>> times = measure_(number, FindPass::First);
    if (times)
      candidates_.push_back({number, times->front()});
    else if (times.status().code() != StatusCode::Unsupported)
      return times.status();
  }
  return candidates_.empty() ? unsupported("none of the candidates could be measured")
                             : Status::ok();
}

/// Keeps candidate 0, if it could be measured, and the fastest kFinalists other candidates.
void Search::keepFinalists() {
  auto comesFirst = [](const Candidate &a, const Candidate &b) {
    return (a.number == 0) != (b.number == 0) ? a.number == 0 : a.once < b.once;
  };
  std::stable_sort(candidates_.begin(), candidates_.end(), comesFirst);
  if (candidates_.size() > kFinalists + 1)
    candidates_.erase(candidates_.begin() + kFinalists + 1, candidates_.end());
}

/// Measures the finalists in turn, so that drift over time does not favour any candidate.
Status Search::compareFinalists() {
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && !isOver(1)); ++round) {
    std::vector<double> ofFirst;
    for (Candidate &candidate : candidates_) {
      std::vector<double> times = BRAID_TRY(measure_(candidate.number, FindPass::Final));
      if (ofFirst.empty())
        ofFirst = times;
      candidate.rounds.push_back(worstShare(times, ofFirst));
    }
  }
  return Status::ok();
}

size_t Search::winner() const {
  auto isFaster = [](const Candidate &a, const Candidate &b) {
    return median(a.rounds) < median(b.rounds);
  };
  const Candidate &first = candidates_.front();
  const Candidate &best = *std::min_element(candidates_.begin(), candidates_.end(), isFaster);
  return isClearlyFaster(best, limits_.leastGain) ? best.number : first.number;
}

} // namespace

Result<size_t> findFastest(size_t count, const MeasureCandidate &measure, const FindLimits &limits,
                           const std::function<std::chrono::steady_clock::time_point()> &now) {
  Search search(measure, limits, now);
  BRAID_TRY(search.measureAll(count));
  search.keepFinalists();
  BRAID_TRY(search.compareFinalists());
  return search.winner();
}

} // namespace braid
