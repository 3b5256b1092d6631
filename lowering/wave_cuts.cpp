//===- lowering/wave_cuts.cpp - products of doubling that fill whole waves --------------------===//

#include "lowering/wave_cuts.h"

#include <numeric>

namespace braid {
namespace {

/// As many whole waves as fit `most` rows, rounded down to whole tiles; all of these rows, if that
/// would be fewer than `least`.
int64_t wholeWaves(int64_t least, int64_t most, int64_t waveRows) {
  int64_t rows = most / waveRows * waveRows;
  if (rows > kTileRows)
    rows -= rows % kTileRows;
  return rows < least ? most : rows;
}

} // namespace

/// A product that took fewer rows than its blocks have would leave some of a peer's to the next one
/// that are not beside it on every rank.
WaveCuts::WaveCuts(ScalarContext &scalars, int64_t ranks, int64_t blockRows, int64_t waveRows)
    : scalars_(scalars), blockRows_(blockRows), rows_({wholeWaves(1, blockRows, waveRows)}) {
  int64_t taken = rows_.front();
  for (int64_t half = 1; half < ranks; half *= 2) {
    const int64_t left = 2 * half * blockRows - taken;
    const bool isLast = 2 * half == ranks;
    rows_.push_back(isLast ? left : wholeWaves(half * blockRows, left, waveRows));
    taken += rows_.back();
  }
}

/// Rows of product `number` beyond those of its blocks.
int64_t WaveCuts::moreThanBlocks(size_t number) const {
  return rows_[number] - (blockRows_ << (number - 1));
}

/// If a later one takes more than its blocks, the range of this one is shifted into earlier blocks.
bool WaveCuts::reachesBack(size_t number) const {
  for (; number < rows_.size(); ++number)
    if (moreThanBlocks(number) > 0)
      return true;
  return false;
}

/// 1 if the blocks of product `number` come before those of all earlier ones, else 0.
const Scalar *WaveCuts::comesBefore(size_t number) const {
  const Scalar *half = scalars_.constant(int64_t(1) << (number - 1));
  return scalars_.mod(scalars_.div(scalars_.rank(), half), scalars_.constant(2));
}

int64_t WaveCuts::rowsUpTo(size_t number) const {
  return std::accumulate(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(number) + 1,
                         int64_t(0));
}

/// Where all products up to `number` begin: behind those of later ones that come before.
const Scalar *WaveCuts::beginUpTo(size_t number) const {
  const Scalar *begin = scalars_.constant(0);
  for (size_t later = number + 1; later < rows_.size(); ++later)
    begin = scalars_.add(begin, scalars_.mul(comesBefore(later), scalars_.constant(rows_[later])));
  return begin;
}

const Scalar *WaveCuts::begin(size_t number) const {
  if (number == 0)
    return scalars_.add(ownBegin(), ownRowsBefore());
  const Scalar *comesAfter = scalars_.sub(scalars_.constant(1), comesBefore(number));
  return scalars_.add(beginUpTo(number),
                      scalars_.mul(comesAfter, scalars_.constant(rowsUpTo(number - 1))));
}

const Scalar *WaveCuts::end(size_t number) const {
  return scalars_.add(begin(number), scalars_.constant(rows_[number]));
}

const Scalar *WaveCuts::ownBegin() const {
  return scalars_.mul(scalars_.rank(), scalars_.constant(blockRows_));
}

/// Each product that comes before takes those of its rows that are not of its own blocks.
const Scalar *WaveCuts::ownRowsBefore() const {
  const Scalar *before = scalars_.constant(0);
  for (size_t number = 1; number < rows_.size(); ++number)
    if (const int64_t more = moreThanBlocks(number))
      before = scalars_.add(before, scalars_.mul(comesBefore(number), scalars_.constant(more)));
  return before;
}

} // namespace braid
