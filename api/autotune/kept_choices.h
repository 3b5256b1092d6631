//===- api/autotune/kept_choices.h - stored choices of earlier jobs ---------------------------===//
//
// Choices are stored per fusion. Fusions that differ only in their sizes form a family: the choice
// for one member is a good estimate for the others.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

/// The result of earlier trials, and the time budget of these trials.
struct KeptChoice {
  double seconds = 0;
  Configurations schedule;

  std::string encode() const;
  /// Returns nullopt if encode() did not produce `text`.
  static std::optional<KeptChoice> decode(llvm::StringRef text);
};

/// Returns the key for a fusion's choice: the fusion's family and sizes. `fusion` is the printed
/// fusion with its parameter values. `question` is everything else that the choice depends on.
std::string choiceKey(llvm::StringRef fusion, const std::string &question);
/// Returns the choice for the fusion in the same family whose sizes are nearest by ratio.
std::optional<KeptChoice> nearestChoice(const MeasurementCache &cache, llvm::StringRef key);

} // namespace braid
