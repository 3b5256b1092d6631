//===- api/ranks/rank_summary.h - the results of one rank's runs ------------------------------===//
#pragma once

#include "api/dtype.h"
#include "api/status.h"
#include "runtime/execute/trace.h"

namespace braid {

/// One rank's part of a RunReport.
struct RankSummary {
  double runSeconds = 0;
  std::vector<uint64_t> digests; ///< one per output, over all runs
  std::vector<Span> spans;       ///< all from one Plan; encode() omits their tags' `plan`

  /// Encodes the summary for ranks in other processes, on machines of the same architecture.
  std::string encode() const;
  /// Decodes a summary of runs of `plan`. Returns BadInput if `bytes` is not a result of encode().
  static Result<RankSummary> decode(llvm::StringRef bytes, const Plan &plan);
};

/// Fills `data` with `count` random numbers in [-1, 1) that use the full precision of `dtype`, so
/// that sums of their products depend on the order of additions.
void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed);

} // namespace braid
