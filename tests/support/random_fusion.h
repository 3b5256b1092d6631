//===- tests/support/random_fusion.h - random definitions with options to lower them ----------===//
#pragma once

#include "api/ranks/run.h"

#include <cstdint>
#include <string>

namespace braid::test {

/// One case of a property test: the text of a fusion, how to compile it, how to run it.
struct RandomCase {
  uint64_t seed = 0;
  std::string text;
  CompileOptions compile;
  RunOptions run;

  /// Everything needed to see the case again.
  std::string str() const;
};

/// Nodes that random fusions may hold besides gathers and GEMMs.
struct RandomKinds {
  /// GEMMs contracted over devices, whose partial results are summed.
  bool sums = false;
  /// Pointwise nodes of what GEMMs make, and reshards of what is gathered.
  bool functions = false;
  /// Rows that do not divide.
  bool uneven = true;
  /// Results without a Stream axis, and operands that are whole on every device.
  bool whole = false;
  /// A mesh of several hosts, if it has so many ranks. Where each has several, the schedule is
  /// hierarchical.
  bool hosts = false;
};

/// Draws a case. The same seed and kinds give the same case on every machine. Without kinds, every
/// case can be lowered.
RandomCase randomCase(uint64_t seed, const RandomKinds &kinds = {});

/// Compiles and runs a case on the cpu backend, comparing every element. Ok, or what went wrong
/// with the case's text.
Status runCase(const RandomCase &drawn);

/// Ok if the checker proves a case safe with one queue, its result included.
Status checkCase(const RandomCase &drawn);

} // namespace braid::test
