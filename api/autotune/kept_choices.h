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

/// Returns the key of a fusion's choice: the family and the sizes. `fusion` is the printed fusion
/// with the values of its parameters. `question` contains everything else on which the choice
/// depends.
std::string choiceKey(llvm::StringRef fusion, const std::string &question);
/// Returns the choice for the fusion of the family with the nearest sizes, by their ratios.
std::optional<KeptChoice> nearestChoice(const MeasurementCache &cache, llvm::StringRef key);

} // namespace braid
