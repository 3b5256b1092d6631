//===- runtime/reference/reference.h - what a fusion's result should be -----------------------===//
//
// The numerical reference. It computes a fusion's outputs from its definition alone, on global
// tensors, in f64 with plain loops, and shares no code with lowering, Plans, the executor or the
// backends. Its inputs are such that every result is exact in its element type; so is the
// comparison (reference_inputs.h).
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

  /// Writes `rank`'s part of input `index` for `iteration` to `data`.
  void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const;

  /// Compares every element of `rank`'s output `index` with the definition's; in rows that do not
  /// exist, with the NaNs that the caller has filled the output with (0xff in every byte).
  /// WrongResult names the first difference: "rank 2, iteration 5: %C[3, 17, 0] is 15, expected 12
  /// (3 of 131072 elements differ)". Unsupported, with the place of a node, if its values are not
  /// exact in the element type; and with a wider type, if all values are exact in that.
  Status compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const;
  /// Returns how many elements of all outputs `rank` has in rows that exist. One iteration compares
  /// these with the definition.
  int64_t elementsOf(int64_t rank) const;

private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace braid
