//===- api/autotune/kept_choices.h - what was chosen on this machine before -------------------===//
//
// Choices are kept by fusion. Fusions that differ only in their numbers, which are sizes, are one
// family: the choice for one of them is a good guess for another one.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

/// The result of earlier trials, and the time limit that they had.
struct KeptChoice {
  double seconds = 0;
  Configurations schedule;

  std::string encode() const;
  /// Nothing for any text but what encode() makes.
  static std::optional<KeptChoice> decode(llvm::StringRef text);
};

/// The choices that answer one question, for the fusions of one family.
class KeptChoices {
public:
  /// `fusion` is the printed one, with the values of its parameters; `question` is everything else
  /// that the choice depends on.
  KeptChoices(llvm::StringRef fusion, const std::string &question);

  /// The key of the fusion's choice.
  const std::string &key() const { return key_; }
  std::optional<KeptChoice> find(const MeasurementCache &cache) const;
  /// The choice for the fusion of the family whose sizes are nearest, by their ratios.
  std::optional<KeptChoice> findNearest(const MeasurementCache &cache) const;

private:
  double distanceTo(llvm::StringRef numbers) const;

  std::string family_, key_; ///< the key begins with the family, and ends with the numbers
  std::vector<double> numbers_;
};

} // namespace braid
