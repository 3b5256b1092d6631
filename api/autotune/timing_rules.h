//===- api/autotune/timing_rules.h - which candidates are timed, and which of them again ------===//
//
// Predictions misjudge all candidates with the same schedule, protocol or transfer mode (their
// traits) in the same way. Candidates with the same traits are a family. The first trials take one
// candidate of each family before a second one of any, and each time teaches the costs of the
// traits. In turns with these, the candidates that are now expected to be fastest are tried, of any
// family.
//
// Nothing here measures anything. Candidates are numbers, 0 and up.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// A candidate as the rules see it.
struct PredictedCandidate {
  double predictedUs = 0;
  size_t commands = 0; ///< commands of a rank in a run: the fewer, the simpler
  std::array<std::string, 3> traits = {};
  /// Runs may take so many times as long as a few of them show: what counts where candidates are
  /// put in order. What is expected of a first look is without it.
  double worstCase = 1;
};

/// Predictions that differ by less say nothing: of these, the simplest comes first.
constexpr double kPredictionsTell = 0.05;
/// A candidate that is predicted to be slower than the best by more is not the fastest.
constexpr double kPredictionsMiss = 0.4;

/// All candidates, the best predicted first.
std::vector<size_t> orderByPrediction(llvm::ArrayRef<PredictedCandidate> predictedCandidates);

/// The order of a first look.
class FirstTrials {
public:
  /// Leaves out what is predicted to be slower than the best by more than `window` of its time, but
  /// for the `least` best.
  explicit FirstTrials(std::vector<PredictedCandidate> predictedCandidates,
                       double window = kPredictionsMiss, size_t least = 1);

  /// The candidate to be timed next; empty if all have been.
  std::optional<size_t> next() const;
  /// Adds a measurement, above 0.
  void add(size_t candidate, double us);

private:
  struct Entry {
    size_t candidate;
    double logPredicted;
    std::array<size_t, 3> traits; ///< numbers of texts
    size_t family;
    std::optional<double> error = {}; ///< log of measured over predicted; empty: not timed
  };
  std::vector<const Entry *> waiting() const;
  std::vector<double> learn() const;
  size_t timesSeen(const Entry &entry) const;

  std::vector<Entry> entries_; ///< candidates within the window, the best predicted first
  size_t traits_ = 0;          ///< number of different traits
  size_t timed_ = 0;
  std::vector<size_t> ofTrait_, ofFamily_; ///< numbers of timed candidates
};

struct CandidateTime {
  size_t candidate;
  double us;
  double worstCase = 1; ///< as PredictedCandidate has it

  double countedUs() const { return us * worstCase; }
};

/// The fastest first, by what counts.
void sortByTime(llvm::MutableArrayRef<CandidateTime> times);

/// The number of candidates, the fastest first, that deserve another trial: at most eight, and none
/// that is slower than the fastest by more than a quarter.
size_t survivorsOf(llvm::ArrayRef<CandidateTime> times);

/// So many stay after the first round.
inline constexpr size_t kFinalists = 4;

struct FinalRounds {
  size_t survivors = 0; ///< that had a turn in the first round; 0: there was nothing to compare
  size_t finalists = 0; ///< survivors that were timed in every round
  size_t rounds = 0;
};

} // namespace braid
