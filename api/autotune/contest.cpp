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

  Result<CandidateTimes> run();

private:
  Result<bool> fits(double us, double runs) const;
  Result<bool> goesOn(size_t done, size_t least, size_t most, double start, double limit) const;
  Status look();
  size_t countFinalists() const;
  Result<bool> playRound();
  Status playRounds();

  llvm::ArrayRef<PredictedCandidate> candidates_;
  const TimingLimits &limits_;
  const TimingActions &actions_;
  CandidateTimes result_;
  std::map<size_t, std::vector<double>> turns_; ///< times of each candidate, in microseconds
};

/// True if that many runs of that length end in time.
Result<bool> Contest::fits(double us, double runs) const {
  if (limits_.seconds == std::numeric_limits<double>::infinity())
    return true;
  double now = BRAID_TRY(actions_.seconds());
  return now + 1e-6 * runs * us < limits_.seconds;
}

/// Asks for the time only if that decides.
Result<bool> Contest::goesOn(size_t done, size_t least, size_t most, double start,
                             double limit) const {
  if (done < least || done >= most)
    return done < most;
  double now = BRAID_TRY(actions_.seconds());
  return now - start < limit;
}

Status Contest::look() {
  double start = BRAID_TRY(actions_.seconds());
  for (size_t candidate : trialOrder(candidates_, limits_.window, limits_.least)) {
    const PredictedCandidate &predicted = candidates_[candidate];
    bool isTime = BRAID_TRY(
        goesOn(result_.times.size(), limits_.least, limits_.most, start, limits_.lookSeconds));
    if (!isTime || !BRAID_TRY(fits(predicted.predictedUs, kRunsOfTrial)))
      break;
    double us = BRAID_TRY(actions_.look(candidate));
    result_.times.push_back({candidate, us, predicted.worstCase});
  }
  sortByTime(result_.times);
  return Status::ok();
}

size_t Contest::countFinalists() const {
  constexpr double kSlower = 0.25;
  const llvm::ArrayRef<CandidateTime> times = result_.times;
  return static_cast<size_t>(
      llvm::count_if(times.take_front(kMostFinalists), [&](const CandidateTime &each) {
        return each.countedUs() <= times.front().countedUs() * (1 + kSlower);
      }));
}

/// One turn for each finalist, while there is time; false if there was none for all of them. Every
/// other round goes backwards, so that no candidate always follows the same one. If the time ends
/// in the first round, the candidates that had a turn are the finalists.
Result<bool> Contest::playRound() {
  const size_t count = result_.finalists;
  const bool isForwards = result_.rounds++ % 2 == 0;
  for (size_t i = 0; i < count; ++i) {
    const CandidateTime &each = result_.times[isForwards ? i : count - 1 - i];
    if (!BRAID_TRY(fits(each.us, kRunsOfTurn))) {
      result_.finalists = turns_.size();
      return false;
    }
    double us = BRAID_TRY(actions_.again(each.candidate));
    turns_[each.candidate].push_back(us);
  }
  return true;
}

Status Contest::playRounds() {
  result_.finalists = countFinalists();
  if (result_.finalists < 2) {
    result_.finalists = 0;
    return Status::ok();
  }
  double start = BRAID_TRY(actions_.seconds());
  while (true) {
    const bool isTime = BRAID_TRY(goesOn(result_.rounds, limits_.leastRounds, limits_.mostRounds,
                                         start, limits_.finalSeconds));
    if (!isTime || !BRAID_TRY(playRound()))
      break;
  }
  auto finalists = llvm::MutableArrayRef(result_.times).take_front(result_.finalists);
  for (CandidateTime &each : finalists)
    each.us = median(turns_[each.candidate]);
  sortByTime(finalists);
  return Status::ok();
}

Result<CandidateTimes> Contest::run() {
  BRAID_TRY(look());
  BRAID_TRY(playRounds());
  return std::move(result_);
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
  constexpr double kPartOfLook = 0.7;
  TimingLimits limits;
  limits.seconds = seconds;
  limits.lookSeconds = kPartOfLook * seconds;
  limits.finalSeconds = (1 - kPartOfLook) * seconds;
  return limits;
}

Result<CandidateTimes> timeCandidates(llvm::ArrayRef<PredictedCandidate> candidates,
                                      const TimingLimits &limits, const TimingActions &actions) {
  return Contest(candidates, limits, actions).run();
}

} // namespace braid
