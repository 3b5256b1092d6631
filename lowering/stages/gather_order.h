//===- lowering/stages/gather_order.h - whose block a rank takes in which step ----------------===//
//
// In every step the blocks that are taken are a permutation: no two ranks take from, or give to,
// the same one. Step 0 is the own block.
//
//   shift, ring: step i takes the block of rank + i, modulo the number of ranks
//   xor:         step i takes the block of rank xor i
//
// Under the latter the blocks of steps s .. 2s-1 are neighbours, for every power of two s, and one
// GEMM can take them all. With a number of ranks that is no power of two this holds up to the
// largest one that divides it; groups of so many ranks then take from one another in turn.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/scalar.h"
#include "lowering/schedule/configuration.h"

#include <vector>

namespace braid {

class GatherOrder {
public:
  GatherOrder(ScalarContext &scalars, schedule::Order order, int64_t ranks);

  /// The rank whose block this rank takes in that step.
  const Scalar *source(const Scalar *step) const { return partner(step, ScalarKind::Add); }
  /// The rank that takes this rank's block in that step.
  const Scalar *target(const Scalar *step) const { return partner(step, ScalarKind::Sub); }

  /// Steps begin .. end-1, whose blocks are neighbours on every rank; `first` is their first one.
  struct Run {
    int64_t begin, end;
    const Scalar *first;
  };
  /// All steps but 0, in the longest runs that do not delay what came first: of one step, then of
  /// twice as many each time. With `halvesLast` the last one is two, if it is of more than one.
  std::vector<Run> runs(bool halvesLast = false) const;

private:
  const Scalar *partner(const Scalar *step, ScalarKind direction) const;
  void halve(std::vector<Run> &runs) const;

  ScalarContext &scalars_;
  const int64_t ranks_;
  int64_t unit_ = 1; ///< so many ranks take from one another by xor
};

} // namespace braid
