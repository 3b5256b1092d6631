//===- tests/support/random_fusion.h - random fusions with options to lower them --------------===//
#pragma once

#include "api/ranks/run.h"

#include <cstdint>
#include <string>

namespace braid::test {

/// A case of a property test: the text of a fusion, and options to compile and run it.
struct RandomCase {
  uint64_t seed = 0;
  std::string text;
  CompileOptions compile;
  RunOptions run;

  /// Returns all information that is needed to reproduce the case.
  std::string str() const;
};

/// Optional features of random fusions, in addition to gathers and GEMMs.
struct RandomKinds {
  /// GEMMs whose contracted axis is split over devices, so that partial results are summed.
  bool sums = false;
  /// Pointwise nodes after GEMMs, and reshards of gathered inputs.
  bool functions = false;
  /// A number of rows that is not divisible by the number of blocks.
  bool uneven = true;
  /// Results without a Stream axis, and replicated operands.
  bool whole = false;
  /// A mesh of several hosts, if there are enough ranks. The schedule is hierarchical if hosts have
  /// several ranks.
  bool hosts = false;
};

/// Draws a case that depends only on the arguments, on any machine. Without optional features,
/// every case can be lowered.
RandomCase randomCase(uint64_t seed, const RandomKinds &kinds = {});

/// Compiles and runs a case on the cpu backend, comparing every element. Errors include its text.
Status runCase(const RandomCase &drawn);

/// Returns Ok if the checker proves a case, including its result, with one queue.
Status checkCase(const RandomCase &drawn);

} // namespace braid::test
