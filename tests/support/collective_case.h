//===- tests/support/collective_case.h - a collective and its expected results ----------------===//
#pragma once

#include "ir/program.h"

#include <optional>
#include <string>
#include <vector>

namespace braid::test {

struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::AllGather;
  ReductionOperator reduction = ReductionOperator::Sum;
  DType dtype = DType::F32;
  int64_t ranks = 2;
  std::vector<int64_t> team = {}; ///< all ranks if empty
  int64_t root = 0;               ///< root of a broadcast or a reduce
  int64_t elements = 1;           ///< number of elements in each rank's block
  /// true if operands are in symmetric buffers, false if they are in the caller's memory
  bool isStaged = false;

  std::vector<int64_t> members() const;
  bool isMember(int64_t rank) const;
  int64_t sourceElements() const;
  int64_t resultElements() const;
  /// Returns a program that executes the collective on three streams, one after another.
  std::string text() const;
  /// Returns small integers that depend on rank and run.
  std::vector<double> input(int64_t rank, int64_t run) const;
  /// Returns the expected result of each execution, or nullopt if the rank receives none.
  std::optional<std::vector<double>> expected(int64_t rank, int64_t run) const;
  std::string str() const;
};

/// Returns all kinds with all relevant teams and roots. `blocks` lists the block sizes.
std::vector<CollectiveCase> collectiveCases(int64_t ranks, DType dtype,
                                            const std::vector<int64_t> &blocks);

} // namespace braid::test
