//===- api/launch/output_digests.h - whether reproducible runs have the same bits -------------===//
#pragma once

#include "api/launch/rank_summary.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// Writes `count` random numbers in [-1, 1) with all digits that their type has, so that a sum of
/// their products depends on the order in which it is made.
void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed);

/// The digest of `before` with these bytes behind it.
uint64_t digestOf(uint64_t before, llvm::StringRef bytes);

struct OutputOfRanks {
  std::string name;
  bool isWhole = false; ///< on every rank, so that all have the same
};
/// One digest for each output, over all ranks. WrongResult if one that is whole differs.
Result<std::vector<uint64_t>> mergeDigests(const std::vector<OutputOfRanks> &outputs,
                                           const std::vector<std::vector<uint64_t>> &ofRanks);

} // namespace braid
