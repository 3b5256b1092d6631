//===- lowering/stages/gather_order.h - the source of each step's block in a gather -----------===//
//
// In each step, every rank reads one block, and no two ranks read the same block. In step 0, each
// rank reads its local block.
//
//   shift, ring: step i reads the block of rank + i, modulo the number of ranks
//   xor:         step i reads the block of rank xor i
//
// In xor order, the blocks of steps s .. 2s-1 are contiguous for every power of two s, so one GEMM
// can process them. If the number of ranks is not a power of two, this is true up to the largest
// power of two that divides it; groups of that many ranks exchange blocks in shift order.
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

  /// Returns the rank whose block this rank reads in `step`.
  const Scalar *source(const Scalar *step) const { return partner(step, ScalarKind::Add); }
  /// Returns the rank that reads this rank's block in `step`.
  const Scalar *target(const Scalar *step) const { return partner(step, ScalarKind::Sub); }

  /// Steps begin .. end-1, whose blocks are contiguous on every rank, starting at block `first`.
  struct Run {
    int64_t begin, end;
    const Scalar *first;
  };
  /// Groups all steps except 0 into runs of 1, 2, 4, ... contiguous blocks. If `halvesLast` and the
  /// last run has more than one step, splits that run in two.
  std::vector<Run> runs(bool halvesLast = false) const;

private:
  const Scalar *partner(const Scalar *step, ScalarKind direction) const;
  void halve(std::vector<Run> &runs) const;

  ScalarContext &scalars_;
  const int64_t ranks_;
  int64_t unit_ = 1; ///< number of ranks in each group that exchanges blocks in xor order
};

} // namespace braid
