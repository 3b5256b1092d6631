//===- api/autotune/kept_choices.h - stored choices of earlier jobs ---------------------------===//
//
// Choices are stored by fusion. Fusions that differ only in their sizes form one family: the choice
// for one of them is a good estimate for another.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

/// The result of earlier trials, and their time limit.
struct KeptChoice {
  double seconds = 0;
  Configurations schedule;

  std::string encode() const;
  /// Returns nullopt unless encode() made `text`.
  static std::optional<KeptChoice> decode(llvm::StringRef text);
};

/// The stored choices for one question and the fusions of one family.
class KeptChoices {
public:
  /// `fusion` is the printed fusion with the values of its parameters. `question` contains
  /// everything else on which the choice depends.
  KeptChoices(llvm::StringRef fusion, const std::string &question);

  /// The key of the fusion's choice.
  const std::string &key() const { return key_; }
  std::optional<KeptChoice> find(const MeasurementCache &cache) const;
  /// Finds the choice for the fusion of the family with the nearest sizes, by their ratios.
  std::optional<KeptChoice> findNearest(const MeasurementCache &cache) const;

private:
  double distanceTo(llvm::StringRef numbers) const;

  std::string family_, key_; ///< the key is the family followed by the numbers
  std::vector<double> numbers_;
};

} // namespace braid
