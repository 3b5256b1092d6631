//===- runtime/reference/reference.h - what a fusion's result should be -----------------------===//
//
// The numerical judge. It computes a fusion's outputs from its definition alone, on global
// tensors, in f64 with plain loops, and shares no code with lowering, Plans, the executor or the
// backends.
//
// Inputs are small integers, such that every result is exactly representable in the element type,
// and the comparison is exact. They are marked so that a wrong block cannot pass:
//  * every row of a first operand holds one mark that depends on the iteration, the block (its
//    index along the DIDx axis) and the row: a stale, missing or misplaced block changes results;
//  * every row of a second operand holds a nonzero entry, whose weight differs from those of its
//    neighbours: any element off by one, and any shift by one element, changes the result;
//  * where ranks' partial results are summed, each adds another amount to every element, which
//    depends on the iteration, the block and the row, too: one that is missing, added twice or not
//    the right one changes results.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/fusion.h"

#include <memory>

namespace braid {

/// The inputs and expected outputs of a fusion for every iteration. Deterministic in (fusion, seed,
/// iteration). Thread-safe: ranks may ask at the same time.
class Reference {
public:
  /// `fusion` is verified and outlives this. `fileName` is what messages say that it was read from.
  Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName = "<input>");
  ~Reference();

  size_t inputCount() const;
  size_t outputCount() const;
  /// Bytes of input or output `index` on one rank.
  int64_t inputBytes(size_t index) const;
  int64_t outputBytes(size_t index) const;

  /// Writes `rank`'s part of input `index` for `iteration` to `data` (inputBytes).
  void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const;
  /// Overwrites an output with NaNs, so that what is not written cannot pass.
  void poisonOutput(size_t index, void *data) const;

  /// Compares every element of `rank`'s output `index` with the definition's; in rows that do not
  /// exist, with the NaNs that were there before. WrongResult names the first difference: "rank 2,
  /// iteration 5: %C[3, 17, 0] is 15, expected 12 (3 of 131072 elements differ)". Unsupported, with
  /// the place of the node, if an expected value is not representable in the element type; and with
  /// a wider type, if all of the rank's outputs can be compared with that.
  Status compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const;
  /// Elements that one rank compares in one iteration, over all outputs.
  int64_t elementsPerRank() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace braid
