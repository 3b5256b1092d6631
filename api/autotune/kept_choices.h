//===- api/autotune/kept_choices.h - stored choices of earlier jobs ---------------------------===//
//
// Choices are stored per fusion. Fusions that differ only in sizes form a family: the choice for
// one member is a good guess for the others.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/tune/measurement_cache.h"

namespace braid {

/// The schedule chosen by earlier trials, and the time budget of those trials in seconds.
struct KeptChoice {
  double seconds = 0;
  Configurations schedule;

  std::string encode() const;
  /// Returns nullopt if `text` is not a result of encode().
  static std::optional<KeptChoice> decode(llvm::StringRef text);
};

/// Returns the cache key for a fusion's choice, which consists of the fusion's family and sizes.
/// `fusion` is the printed fusion with its parameter values; `question` contains everything else
/// that the choice depends on.
std::string choiceKey(llvm::StringRef fusion, const std::string &question);
/// Returns the stored choice for the fusion in `key`'s family whose sizes are closest to those in
/// `key`, compared by ratio. Ignores choices with any size that differs by a factor of 2 or more.
std::optional<KeptChoice> nearestChoice(const MeasurementCache &cache, llvm::StringRef key);

} // namespace braid
