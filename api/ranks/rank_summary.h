//===- api/ranks/rank_summary.h - what each rank has to say when its runs are done ------------===//
#pragma once

#include "api/dtype.h"
#include "api/status.h"
#include "runtime/execute/trace.h"

namespace braid {

/// One rank's part of a RunReport.
struct RankSummary {
  double runSeconds = 0;
  int64_t elementsCompared = 0;
  int64_t clockErrorNs = 0;           ///< error of the spans' times: see CommonClock
  std::vector<Span> spans = {};       ///< all of one Plan; their tags' `plan` is not passed on
  std::vector<uint64_t> digests = {}; ///< one for each output of a reproducible run, over all runs

  /// Bytes, for ranks in other processes, of machines of one kind.
  std::string encode() const;
  /// The spans are of `plan`. BadInput if `bytes` is not what encode() makes of such spans.
  static Result<RankSummary> decode(const std::string &bytes, const Plan &plan);
};

//===- Whether reproducible runs have the same bits -------------------------------------------===//

/// Writes `count` random numbers in [-1, 1) with all digits that their type has, so that a sum of
/// their products depends on the order in which it is made.
void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed);

/// The digest of `before` followed by these bytes.
uint64_t digestOf(uint64_t before, llvm::StringRef bytes);

struct OutputOfRanks {
  std::string name;
  bool isWhole = false; ///< on every rank, so that all have the same
};
/// One digest for each output, over all ranks. WrongResult if one that is whole differs.
Result<std::vector<uint64_t>> mergeDigests(const std::vector<OutputOfRanks> &outputs,
                                           llvm::ArrayRef<RankSummary> ranks);

} // namespace braid
