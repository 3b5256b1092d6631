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

/// The bounds of the GEMMs of one gather, in rows of the whole: GEMM 0 has only this rank's rows,
/// and the GEMMs up to number j, together one range, lie within the aligned group of 2^j blocks
/// that the rank belongs to. The other half of a group lies before or after this rank's half, and
/// so does its GEMM.
///
/// If `halvesLast`, and with at least 4 ranks, the last of these GEMMs is split in two. The first
/// part has the quarter of all blocks that comes first, and the rows that earlier GEMMs left, if
/// these lie between. So it takes the remaining rows at the end where that quarter lies, and leaves
/// one range to the other part; but on half of the ranks it is not adjacent to the GEMMs before it.
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
  /// The begin of this rank's block, and the number of its rows before those of GEMM 0; both depend
  /// on the rank.
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
