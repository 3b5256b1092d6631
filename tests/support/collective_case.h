//===- tests/support/collective_case.h - one collective, and what it must give ----------------===//
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
  std::vector<int64_t> team = {}; ///< empty: all ranks
  int64_t root = 0;               ///< root of a broadcast or a reduce
  int64_t elements = 1;           ///< elements of a rank's block that is gathered, scattered, ...
  bool isStaged = false;          ///< operands in symmetric buffers; else the caller's

  std::vector<int64_t> members() const;
  bool isMember(int64_t rank) const;
  int64_t sourceElements() const;
  int64_t resultElements() const;
  /// A program that does it three times, in one stream and in two others.
  std::string text() const;
  /// Small integers, other ones for each rank and run.
  std::vector<double> input(int64_t rank, int64_t run) const;
  /// The expected result of each of the three; nothing if the rank gets none.
  std::optional<std::vector<double>> expected(int64_t rank, int64_t run) const;
  std::string str() const;
};

/// All kinds, with all teams and roots that say something on so many ranks. `blocks`: elements.
std::vector<CollectiveCase> collectiveCases(int64_t ranks, DType dtype,
                                            const std::vector<int64_t> &blocks);

} // namespace braid::test
