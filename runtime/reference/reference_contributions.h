//===- runtime/reference/reference_contributions.h - the terms of one sum ---------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace braid::reference {

/// Draws what each rank adds to one element of a sum over devices: one term is big, up to 15 others
/// are small, and those of further ranks are zero. Terms of different places have different
/// magnitudes, always: that at place x is in band x, and bands do not meet. Signs are random. All
/// magnitudes together are at most the budget; all terms together are at least the least big one.
class Contributions {
public:
  /// Terms of one sum, and what their magnitudes may add up to.
  Contributions(int64_t places, int64_t budget);

  int64_t places() const { return places_; }
  /// Terms differ with `random`; their sum is `residue` modulo the number of big terms (61 where
  /// the budget allows).
  void draw(uint64_t random, uint64_t residue, llvm::MutableArrayRef<int8_t> terms) const;

private:
  int64_t drawSmall(uint64_t random, llvm::MutableArrayRef<int8_t> small) const;

  int64_t places_;
  int64_t nonzero_; ///< at most kMost of the places
  int64_t big_;     ///< big terms are big_, ..., 2 * big_ - 1
  int64_t width_;   ///< of a band of small terms
};

} // namespace braid::reference
