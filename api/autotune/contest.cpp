//===- api/autotune/contest.cpp - which candidates are timed, and which of them wins ----------===//

#include "api/autotune/contest.h"

#include "ir/failure.h"
#include "runtime/tune/median.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace braid {
namespace {

/// The prediction that `rank` others are below, or the highest if there are fewer.
double lowestOf(llvm::ArrayRef<PredictedCandidate> candidates, size_t rank = 0) {
  std::vector<double> predictions;
  for (const PredictedCandidate &each : candidates)
    predictions.push_back(each.predictedUs);
  std::sort(predictions.begin(), predictions.end());
  return predictions[std::min(rank, predictions.size() - 1)];
}

void sortByTime(llvm::MutableArrayRef<CandidateTime> times) {
  std::stable_sort(times.begin(), times.end(), [](const CandidateTime &a, const CandidateTime &b) {
    return a.countedUs() < b.countedUs();
  });
}

// The fewest runs of a candidate whose runs take long.
constexpr double kRunsOfTrial = 5; ///< two to warm up, one alone, and a burst of two
constexpr double kRunsOfTurn = 3;  ///< one to warm up, and a burst of two

class Contest {
public:
  Contest(llvm::ArrayRef<PredictedCandidate> candidates, const TimingLimits &limits,
          const TimingActions &actions)
      : candidates_(candidates), limits_(limits), actions_(actions) {}

  Status runTrials();
  Status playRounds();
  CandidateTimes result;

private:
  Result<bool> hasTime(size_t done, size_t least, double end, double us) const;
  Result<bool> playRound(double end);

  llvm::ArrayRef<PredictedCandidate> candidates_;
  const TimingLimits &limits_;
  const TimingActions &actions_;
  std::map<size_t, std::vector<double>> turns_; ///< microseconds, by candidate
};

/// True if something that takes `us` ends within the time limit, and begins before `end` or is one
/// of the `least` first.
Result<bool> Contest::hasTime(size_t done, size_t least, double end, double us) const {
  const double now = BRAID_TRY(actions_.seconds());
  return now + 1e-6 * us < limits_.seconds && (done < least || now < end);
}

/// The first trials.
Status Contest::runTrials() {
  const double end = BRAID_TRY(actions_.seconds()) + limits_.trialSeconds;
  std::vector<CandidateTime> &times = result.times;
  for (size_t candidate : trialOrder(candidates_, limits_.window, limits_.least)) {
    const PredictedCandidate &predicted = candidates_[candidate];
    if (times.size() >= limits_.most ||
        !BRAID_TRY(hasTime(times.size(), limits_.least, end, kRunsOfTrial * predicted.predictedUs)))
      break;
    times.push_back({candidate, BRAID_TRY(actions_.trial(candidate)), predicted.worstCase});
  }
  sortByTime(result.times);
  return Status::ok();
}

/// One turn for each finalist, while there is time; false if there was none for all of them. Every
/// other round goes backwards, so that no candidate always follows the same one. If the time ends
/// in the first round, the candidates that had a turn are the finalists.
Result<bool> Contest::playRound(double end) {
  const size_t count = result.finalists;
  if (!BRAID_TRY(hasTime(result.rounds, limits_.leastRounds, end, 0)))
    return false;
  const bool isForwards = result.rounds++ % 2 == 0;
  for (size_t i = 0; i < count; ++i) {
    const CandidateTime &each = result.times[isForwards ? i : count - 1 - i];
    if (!BRAID_TRY(hasTime(0, 1, end, kRunsOfTurn * each.us)))
      return false;
    turns_[each.candidate].push_back(BRAID_TRY(actions_.turn(each.candidate)));
  }
  return true;
}

/// The finalists take turns.
Status Contest::playRounds() {
  constexpr double kSlower = 0.25;
  const llvm::MutableArrayRef<CandidateTime> times = result.times;
  result.finalists = static_cast<size_t>(
      llvm::count_if(times.take_front(kMostFinalists), [&](const CandidateTime &each) {
        return each.countedUs() <= times.front().countedUs() * (1 + kSlower);
      }));
  if (result.finalists < 2) {
    result.finalists = 0;
    return Status::ok();
  }
  const double end = BRAID_TRY(actions_.seconds()) + limits_.finalSeconds;
  while (result.rounds < limits_.mostRounds && BRAID_TRY(playRound(end))) {
  }
  result.finalists = turns_.size();
  const auto finalists = times.take_front(result.finalists);
  for (CandidateTime &each : finalists)
    each.us = median(turns_[each.candidate]);
  sortByTime(finalists);
  return Status::ok();
}

} // namespace

std::vector<size_t> orderByPrediction(llvm::ArrayRef<PredictedCandidate> candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t(0));
  if (candidates.empty())
    return order;
  const double lowest = lowestOf(candidates), step = std::log1p(kPredictionsTell);
  auto keyOf = [&](size_t candidate) {
    const PredictedCandidate &predicted = candidates[candidate];
    const double counted = predicted.predictedUs * predicted.worstCase;
    return std::tuple(std::floor(std::log(counted / lowest) / step), predicted.commands, counted);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keyOf(a) < keyOf(b); });
  return order;
}

std::vector<size_t> trialOrder(llvm::ArrayRef<PredictedCandidate> candidates, double window,
                               size_t least) {
  if (candidates.empty())
    return {};
  const double limit = std::max(lowestOf(candidates) * (1 + window),
                                lowestOf(candidates, std::max<size_t>(least, 1) - 1));
  std::vector<std::pair<size_t, size_t>> trials; // place within its family, candidate
  std::map<std::string, size_t> families;
  for (size_t candidate : orderByPrediction(candidates))
    if (candidates[candidate].predictedUs <= limit)
      trials.emplace_back(families[candidates[candidate].family]++, candidate);
  llvm::stable_sort(trials, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<size_t> order;
  for (const auto &[place, candidate] : trials)
    order.push_back(candidate);
  return order;
}

TimingLimits TimingLimits::within(double seconds) {
  constexpr double kPartOfTrials = 0.7;
  TimingLimits limits;
  limits.seconds = seconds;
  limits.trialSeconds = kPartOfTrials * seconds;
  limits.finalSeconds = (1 - kPartOfTrials) * seconds;
  return limits;
}

Result<CandidateTimes> timeCandidates(llvm::ArrayRef<PredictedCandidate> candidates,
                                      const TimingLimits &limits, const TimingActions &actions) {
  Contest contest(candidates, limits, actions);
  BRAID_TRY(contest.runTrials());
  BRAID_TRY(contest.playRounds());
  contest.result.seconds = BRAID_TRY(actions.seconds());
  return std::move(contest.result);
}

} // namespace braid
