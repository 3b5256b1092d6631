//===- runtime/reference/reference.h - computes the expected result of a fusion ---------------===//
//
// The numerical reference computes a fusion's outputs from the definition alone, on global tensors,
// in f64 with plain loops. It shares no code with lowering, Plans, the executor or the backends.
// Inputs are chosen such that every result is exact in its element type, so outputs are compared
// exactly (reference_inputs.h).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/reference/reference_inputs.h"

namespace braid {

/// The inputs and expected outputs of a fusion for every iteration. Deterministic for a given
/// (fusion, seed, iteration). Thread-safe.
class Reference {
public:
  /// `fusion` must be verified and outlive this object. `fileName` names its source in diagnostics.
  Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName = "<input>");

  /// Writes `rank`'s part of input `index` for `iteration` to `data`.
  void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const;

  /// Compares every element of `rank`'s output `index` with the definition. Padding rows must still
  /// contain the NaNs (0xff in every byte) with which the caller filled the output. Returns
  /// WrongResult, describing the first difference: "rank 2, iteration 5: %C[3, 17, 0] is 15,
  /// expected 12 (3 of 131072 elements differ)". Returns Unsupported, with the location of a node,
  /// if the node's values are not exact in the element type; the message names a wider type that
  /// could represent them.
  Status compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const;
  /// Returns the number of elements that one iteration compares on `rank`: all elements of all
  /// outputs, except those in padding rows.
  int64_t elementsOf(int64_t rank) const;

private:
  const reference::Graph graph_;
  const reference::Inputs inputs_;
};

} // namespace braid
