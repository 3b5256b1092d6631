//===- api/ranks/rank_summary.h - the results of one rank's runs ------------------------------===//
#pragma once

#include "api/dtype.h"
#include "api/status.h"
#include "runtime/execute/trace.h"

namespace braid {

/// One rank's part of a RunReport.
struct RankSummary {
  double runSeconds = 0;
  int64_t elementsCompared = 0;
  std::vector<Span> spans = {};       ///< all of one Plan; encode() leaves out `plan` of their tags
  std::vector<uint64_t> digests = {}; ///< one for each output of a reproducible run, over all runs

  /// Encodes the summary for ranks in other processes on machines of the same architecture.
  std::string encode() const;
  /// Decodes a summary with spans of `plan`. Returns BadInput if encode() did not make `bytes`.
  static Result<RankSummary> decode(const std::string &bytes, const Plan &plan);
};

//===- Digests of reproducible runs -----------------------------------------------------------===//

/// Writes `count` random numbers in [-1, 1) that use the full precision of `dtype`, so that a sum
/// of their products depends on the order of additions.
void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed);

/// Returns the digest `before`, extended by `bytes`.
uint64_t digestOf(uint64_t before, llvm::StringRef bytes);

struct OutputOfRanks {
  std::string name;
  bool isWhole = false; ///< every rank has the whole output, so that all must have equal bits
};
/// Merges the ranks' digests to one for each output. Returns WrongResult if the digests of a whole
/// output differ.
Result<std::vector<uint64_t>> mergeDigests(const std::vector<OutputOfRanks> &outputs,
                                           llvm::ArrayRef<RankSummary> ranks);

} // namespace braid
