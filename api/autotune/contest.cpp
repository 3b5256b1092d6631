//===- api/autotune/contest.cpp - selects the candidates to time and the fastest of them ------===//

#include "api/autotune/contest.h"

#include "ir/failure.h"
#include "runtime/tune/median.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace braid {
namespace {

/// Returns the prediction with `rank` smaller ones, or the largest if there are fewer.
double lowestOf(llvm::ArrayRef<JudgedCandidate> candidates, size_t rank = 0) {
  std::vector<double> predictions;
  for (const JudgedCandidate &each : candidates)
    predictions.push_back(each.predictedUs);
  std::sort(predictions.begin(), predictions.end());
  return predictions[std::min(rank, predictions.size() - 1)];
}

void sortByTime(llvm::MutableArrayRef<JudgedCandidate *> timed) {
  llvm::stable_sort(timed, [](const JudgedCandidate *a, const JudgedCandidate *b) {
    return a->countedUs() < b->countedUs();
  });
}

// The minimum number of runs of a candidate whose runs take long.
constexpr double kRunsOfTrial = 5; ///< two warm-up runs, one single run, and a burst of two
constexpr double kRunsOfTurn = 3;  ///< one warm-up run and a burst of two

class Contest {
public:
  Contest(ScheduleChoice &choice, const TimingLimits &limits, CandidateTimer &timer)
      : choice_(choice), limits_(limits), timer_(timer) {}

  Status runTrials();
  Status playRounds();
  /// Moves the timed candidates to the front.
  void sortCandidates();

private:
  Result<bool> hasTime(size_t done, size_t least, double end, double us) const;
  Result<bool> playRound(double end);

  ScheduleChoice &choice_;
  const TimingLimits &limits_;
  CandidateTimer &timer_;
  std::vector<JudgedCandidate *> timed_;                         ///< the fastest first
  std::map<const JudgedCandidate *, std::vector<double>> turns_; ///< microseconds
};

/// Returns true if work of `us` ends within the time limit, and either starts before `end` or is
/// one of the first `least`.
Result<bool> Contest::hasTime(size_t done, size_t least, double end, double us) const {
  const double now = BRAID_TRY(timer_.seconds());
  return now + 1e-6 * us < limits_.seconds && (done < least || now < end);
}

/// Makes the first trials.
Status Contest::runTrials() {
  const double end = BRAID_TRY(timer_.seconds()) + limits_.trialSeconds;
  for (JudgedCandidate *each : trialOrder(choice_.candidates, limits_.window, limits_.least)) {
    if (timed_.size() >= limits_.most ||
        !BRAID_TRY(hasTime(timed_.size(), limits_.least, end, kRunsOfTrial * each->predictedUs)))
      break;
    each->burstUs = BRAID_TRY(timer_.trial(*each));
    timed_.push_back(each);
  }
  sortByTime(timed_);
  return Status::ok();
}

/// Times each finalist once, while there is time. Returns false if not all of them were timed.
/// Every other round has the reverse order, so that no candidate always follows the same one. If
/// the time ends in the first round, only the timed candidates are finalists.
Result<bool> Contest::playRound(double end) {
  const size_t count = choice_.finalists;
  if (!BRAID_TRY(hasTime(choice_.rounds, limits_.leastRounds, end, 0)))
    return false;
  const bool isForwards = choice_.rounds++ % 2 == 0;
  for (size_t i = 0; i < count; ++i) {
    const JudgedCandidate *each = timed_[isForwards ? i : count - 1 - i];
    if (!BRAID_TRY(hasTime(0, 1, end, kRunsOfTurn * *each->burstUs)))
      return false;
    turns_[each].push_back(BRAID_TRY(timer_.turn(*each)));
  }
  return true;
}

/// Times the finalists in rounds.
Status Contest::playRounds() {
  constexpr double kSlower = 0.25;
  const llvm::MutableArrayRef<JudgedCandidate *> timed = timed_;
  choice_.finalists = static_cast<size_t>(
      llvm::count_if(timed.take_front(kMostFinalists), [&](const JudgedCandidate *each) {
        return each->countedUs() <= timed.front()->countedUs() * (1 + kSlower);
      }));
  if (choice_.finalists < 2) {
    choice_.finalists = 0;
    return Status::ok();
  }
  const double end = BRAID_TRY(timer_.seconds()) + limits_.finalSeconds;
  while (choice_.rounds < limits_.mostRounds && BRAID_TRY(playRound(end))) {
  }
  choice_.finalists = turns_.size();
  const auto finalists = timed.take_front(choice_.finalists);
  for (JudgedCandidate *each : finalists)
    each->burstUs = median(turns_[each]);
  sortByTime(finalists);
  return Status::ok();
}

void Contest::sortCandidates() {
  std::vector<JudgedCandidate> sorted;
  for (const JudgedCandidate *each : timed_)
    sorted.push_back(*each);
  llvm::copy_if(choice_.candidates, std::back_inserter(sorted),
                [](const JudgedCandidate &each) { return !each.burstUs; });
  choice_.candidates = std::move(sorted);
}

} // namespace

void sortByPrediction(std::vector<JudgedCandidate> &candidates) {
  if (candidates.empty())
    return;
  const double lowest = lowestOf(candidates), step = std::log1p(kPredictionsTell);
  auto keyOf = [&](const JudgedCandidate &each) {
    const double counted = each.predictedUs * each.worstCase;
    return std::tuple(std::floor(std::log(counted / lowest) / step), each.commands, counted);
  };
  llvm::stable_sort(candidates, [&](const JudgedCandidate &a, const JudgedCandidate &b) {
    return keyOf(a) < keyOf(b);
  });
}

std::vector<JudgedCandidate *> trialOrder(llvm::MutableArrayRef<JudgedCandidate> candidates,
                                          double window, size_t least) {
  if (candidates.empty())
    return {};
  const double limit = std::max(lowestOf(candidates) * (1 + window),
                                lowestOf(candidates, std::max<size_t>(least, 1) - 1));
  std::vector<std::pair<size_t, JudgedCandidate *>> trials; // the rank within its family
  std::map<std::string, size_t> families;
  for (JudgedCandidate &each : candidates)
    if (each.predictedUs <= limit)
      trials.emplace_back(families[each.family]++, &each);
  llvm::stable_sort(trials, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<JudgedCandidate *> order;
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

Status timeCandidates(ScheduleChoice &choice, const TimingLimits &limits, CandidateTimer &timer) {
  Contest contest(choice, limits, timer);
  BRAID_TRY(contest.runTrials());
  BRAID_TRY(contest.playRounds());
  contest.sortCandidates();
  choice.seconds = BRAID_TRY(timer.seconds());
  return Status::ok();
}

} // namespace braid
