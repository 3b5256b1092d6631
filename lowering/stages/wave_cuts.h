//===- lowering/stages/wave_cuts.h - GEMMs of coalesced that fill whole waves -----------------===//
//
// A GEMM's tiles are computed in waves, as many at a time as the device has multiprocessors. Two
// GEMMs of 1.7 waves each take four, not 3.4. So a GEMM may leave the rows of its last,
// incomplete wave to the next one, if what that takes stays one range of rows on every rank: then
// all GEMMs but the last are whole waves, and together take as many as one GEMM would.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/scalar.h"

#include "llvm/ADT/SmallVector.h"

namespace braid {

/// Where the GEMMs of one gather begin and end, in rows of the whole: GEMM 0 is of own rows
/// only, and those up to number j, together one range, lie within the aligned group of 2^j blocks
/// that the rank belongs to. A group's other half lies before a rank's own or behind it, and so
/// does its GEMM.
///
/// With `halvesLast`, and 4 ranks or more, the last of these GEMMs is two. The first part is of
/// the quarter of all blocks that comes first, and of what earlier GEMMs left, if that lies
/// between. So it takes rows at that end of all that are left at which the quarter lies, and leaves
/// one range to the other part; but on half of the ranks it is not beside the GEMMs before it.
class WaveCuts {
public:
  /// `ranks` is a power of two from 2 on, the other numbers are at least 1.
  WaveCuts(ScalarContext &scalars, int64_t ranks, int64_t blockRows, int64_t waveRows,
           bool halvesLast = false);

  /// False: each GEMM takes its blocks, no more and no less.
  bool movesRows() const { return groups_.front() < blockRows_; }
  size_t gemms() const { return groups_.size() + (isHalved() ? 1 : 0); }
  /// Whether GEMM `number`, which is not 0, is not of its own blocks alone: it takes rows of
  /// those that came before, or leaves some of its own to later ones for them.
  bool reachesBack(size_t number) const;
  int64_t rows(size_t number) const;
  const Scalar *begin(size_t number) const;
  const Scalar *end(size_t number) const;
  /// Where the own block begins, and how many of its rows come before those of GEMM 0; rank
  /// decides.
  const Scalar *ownBegin() const;
  const Scalar *ownRowsBefore() const;

private:
  bool isHalved() const { return firstPart_ > 0; }
  bool isPart(size_t number) const { return isHalved() && number + 1 >= groups_.size(); }
  const Scalar *comesBefore(size_t group) const;
  const Scalar *beginUpTo(size_t group) const;
  const Scalar *beginOf(size_t group) const;
  int64_t rowsUpTo(size_t group) const;
  int64_t moreThanBlocks(size_t group) const;

  ScalarContext &scalars_;
  const int64_t ranks_, blockRows_;
  llvm::SmallVector<int64_t, 8> groups_; ///< rows of each GEMM, the last not halved
  int64_t firstPart_ = 0;                ///< rows of its first part; 0: it is not halved
};

} // namespace braid
