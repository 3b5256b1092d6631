//===- api/autotune/timing_rules.cpp - which candidates are timed, and which of them again ----===//

#include "api/autotune/timing_rules.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace braid {
namespace {

/// The prediction that `rank` others are below, or the highest if there are fewer.
double lowestOf(llvm::ArrayRef<PredictedCandidate> predictedCandidates, size_t rank = 0) {
  std::vector<double> predictions;
  for (const PredictedCandidate &each : predictedCandidates)
    predictions.push_back(each.predictedUs);
  std::sort(predictions.begin(), predictions.end());
  return predictions[std::min(rank, predictions.size() - 1)];
}

/// A number for each text, in the order in which they come.
template <class Text> class Numbers {
public:
  size_t of(const Text &text) { return numbers_.try_emplace(text, numbers_.size()).first->second; }
  size_t count() const { return numbers_.size(); }

private:
  std::map<Text, size_t> numbers_;
};

} // namespace

std::vector<size_t> orderByPrediction(llvm::ArrayRef<PredictedCandidate> predictedCandidates) {
  std::vector<size_t> order(predictedCandidates.size());
  std::iota(order.begin(), order.end(), size_t(0));
  if (predictedCandidates.empty())
    return order;
  const double lowest = lowestOf(predictedCandidates), step = std::log1p(kPredictionsTell);
  auto keyOf = [&](size_t candidate) {
    const PredictedCandidate &predicted = predictedCandidates[candidate];
    const double counted = predicted.predictedUs * predicted.worstCase;
    const double steps = std::floor(std::log(counted / lowest) / step);
    return std::tuple(steps, predicted.commands, counted);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keyOf(a) < keyOf(b); });
  return order;
}

//===- The first look -------------------------------------------------------------------------===//

FirstTrials::FirstTrials(std::vector<PredictedCandidate> predictedCandidates, double window,
                         size_t least) {
  if (predictedCandidates.empty())
    return;
  const double limit = std::max(lowestOf(predictedCandidates) * (1 + window),
                                lowestOf(predictedCandidates, std::max<size_t>(least, 1) - 1));
  Numbers<std::pair<size_t, std::string>> traits; // the same text in two places is two traits
  Numbers<std::array<size_t, 3>> families;
  for (size_t candidate : orderByPrediction(predictedCandidates)) {
    const PredictedCandidate &predicted = predictedCandidates[candidate];
    if (predicted.predictedUs > limit)
      continue;
    std::array<size_t, 3> numbers;
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = traits.of({i, predicted.traits[i]});
    entries_.push_back({candidate, std::log(predicted.predictedUs), numbers, families.of(numbers)});
  }
  traits_ = traits.count();
  ofTrait_.assign(traits_, 0);
  ofFamily_.assign(families.count(), 0);
}

void FirstTrials::add(size_t candidate, double us) {
  Entry &entry = *llvm::find_if(entries_, [&](const Entry &e) { return e.candidate == candidate; });
  entry.error = std::log(us) - entry.logPredicted;
  ++timed_;
  ++ofFamily_[entry.family];
  for (size_t trait : entry.traits)
    ++ofTrait_[trait];
}

size_t FirstTrials::timesSeen(const Entry &entry) const {
  size_t times = 0;
  for (size_t trait : entry.traits)
    times += ofTrait_[trait];
  return times;
}

/// The logarithm of the factor by which each trait makes runs longer than predicted, relative to
/// all candidates. The sums over candidates' traits are a least-squares fit to the measurements;
/// each value is drawn towards 0 as if one more measurement had shown no effect.
std::vector<double> FirstTrials::learn() const {
  constexpr int kSweeps = 8;
  std::vector<double> effects(traits_, 0);
  auto expected = [&](const Entry &entry) {
    return effects[entry.traits[0]] + effects[entry.traits[1]] + effects[entry.traits[2]];
  };
  for (int sweep = 0; sweep < kSweeps && timed_ > 0; ++sweep) {
    double common = 0;
    for (const Entry &entry : entries_)
      common += entry.error ? *entry.error - expected(entry) : 0;
    common /= static_cast<double>(timed_);
    for (size_t place = 0; place < entries_.front().traits.size(); ++place) {
      std::map<size_t, double> sums;
      for (const Entry &entry : entries_)
        if (entry.error)
          sums[entry.traits[place]] +=
              *entry.error - common - expected(entry) + effects[entry.traits[place]];
      for (auto [trait, sum] : sums)
        effects[trait] = sum / static_cast<double>(ofTrait_[trait] + 1);
    }
  }
  return effects;
}

std::vector<const FirstTrials::Entry *> FirstTrials::waiting() const {
  std::vector<const Entry *> waiting;
  for (const Entry &entry : entries_)
    if (!entry.error)
      waiting.push_back(&entry);
  return waiting;
}

/// Every fourth time the expected fastest. Otherwise one of the families that were timed the least:
/// of those that may as well be their fastest, the one whose traits were timed the least.
std::optional<size_t> FirstTrials::next() const {
  constexpr size_t kTurns = 4;
  std::vector<const Entry *> pool = waiting();
  if (pool.empty())
    return std::nullopt;
  const std::vector<double> effects = learn();
  auto expected = [&](const Entry *entry) {
    double sum = entry->logPredicted;
    for (size_t trait : entry->traits)
      sum += effects[trait];
    return sum;
  };
  auto isFaster = [&](const Entry *a, const Entry *b) { return expected(a) < expected(b); };
  if (timed_ % kTurns == kTurns - 1)
    return (*std::min_element(pool.begin(), pool.end(), isFaster))->candidate;
  auto timesOf = [&](const Entry *entry) { return ofFamily_[entry->family]; };
  size_t least = timesOf(pool.front());
  for (const Entry *entry : pool)
    least = std::min(least, timesOf(entry));
  llvm::erase_if(pool, [&](const Entry *entry) { return timesOf(entry) != least; });
  const double limit = expected(*std::min_element(pool.begin(), pool.end(), isFaster)) +
                       std::log1p(kPredictionsTell);
  llvm::erase_if(pool, [&](const Entry *entry) { return expected(entry) > limit; });
  auto isSeenLess = [&](const Entry *a, const Entry *b) { return timesSeen(*a) < timesSeen(*b); };
  return (*std::min_element(pool.begin(), pool.end(), isSeenLess))->candidate;
}

//===- The final rounds ---------------------------------------------------------------------===//

void sortByTime(llvm::MutableArrayRef<CandidateTime> times) {
  std::stable_sort(times.begin(), times.end(), [](const CandidateTime &a, const CandidateTime &b) {
    return a.countedUs() < b.countedUs();
  });
}

size_t survivorsOf(llvm::ArrayRef<CandidateTime> times) {
  constexpr size_t kMost = 8;
  constexpr double kSlower = 0.25;
  auto isClose = [&](const CandidateTime &each) {
    return each.countedUs() <= times.front().countedUs() * (1 + kSlower);
  };
  return static_cast<size_t>(llvm::count_if(times.take_front(kMost), isClose));
}

} // namespace braid
