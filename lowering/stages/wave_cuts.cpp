//===- lowering/stages/wave_cuts.cpp - GEMMs of coalesced that fill whole waves ---------------===//

#include "lowering/stages/wave_cuts.h"

#include "lowering/schedule/gpu_facts.h"

#include <algorithm>
#include <numeric>

namespace braid {
namespace {

/// As many whole waves as fit `most` rows, rounded down to whole tiles; all of these rows, if that
/// would be fewer than `least`.
int64_t wholeWaves(int64_t least, int64_t most, int64_t waveRows) {
  int64_t rows = most / waveRows * waveRows;
  if (rows > kH200.tileRows)
    rows -= rows % kH200.tileRows;
  return rows < least ? most : rows;
}

} // namespace

/// A GEMM that took fewer rows than its blocks have would leave some of a peer's to the next one
/// that are not beside it on every rank.
WaveCuts::WaveCuts(ScalarContext &scalars, int64_t ranks, int64_t blockRows, int64_t waveRows,
                   bool halvesLast)
    : scalars_(scalars), ranks_(ranks), blockRows_(blockRows),
      groups_({wholeWaves(1, blockRows, waveRows)}) {
  int64_t taken = groups_.front();
  for (int64_t half = 1; half < ranks; half *= 2) {
    const int64_t left = 2 * half * blockRows - taken;
    const bool isLast = 2 * half == ranks;
    groups_.push_back(isLast ? left : wholeWaves(half * blockRows, left, waveRows));
    taken += groups_.back();
  }
  if (halvesLast && ranks >= 4)
    firstPart_ = wholeWaves(1, ranks / 4 * blockRows, waveRows);
}

int64_t WaveCuts::rows(size_t number) const {
  if (!isPart(number))
    return groups_[number];
  return number == groups_.size() ? groups_.back() - firstPart_ : firstPart_;
}

/// Rows of a group's GEMM beyond those of its blocks.
int64_t WaveCuts::moreThanBlocks(size_t group) const {
  return groups_[group] - (blockRows_ << (group - 1));
}

/// If a later one takes more than its blocks, the range of this one is shifted into earlier blocks.
/// And what the first part leaves of its quarter is the other part's.
bool WaveCuts::reachesBack(size_t number) const {
  if (number == groups_.size() && firstPart_ < ranks_ / 4 * blockRows_)
    return true;
  for (size_t group = std::min(number, groups_.size() - 1); group < groups_.size(); ++group)
    if (moreThanBlocks(group) > 0)
      return true;
  return false;
}

/// 1 if the blocks of this group come before those of all earlier ones, else 0.
const Scalar *WaveCuts::comesBefore(size_t group) const {
  const Scalar *half = scalars_.constant(int64_t(1) << (group - 1));
  return scalars_.mod(scalars_.div(scalars_.rank(), half), scalars_.constant(2));
}

int64_t WaveCuts::rowsUpTo(size_t group) const {
  return std::accumulate(groups_.begin(), groups_.begin() + static_cast<ptrdiff_t>(group) + 1,
                         int64_t(0));
}

/// The begin of all groups up to this one: after later groups that come before it in memory.
const Scalar *WaveCuts::beginUpTo(size_t group) const {
  const Scalar *begin = scalars_.constant(0);
  for (size_t later = group + 1; later < groups_.size(); ++later)
    begin =
        scalars_.add(begin, scalars_.mul(comesBefore(later), scalars_.constant(groups_[later])));
  return begin;
}

const Scalar *WaveCuts::beginOf(size_t group) const {
  if (group == 0)
    return scalars_.add(ownBegin(), ownRowsBefore());
  const Scalar *comesAfter = scalars_.sub(scalars_.constant(1), comesBefore(group));
  return scalars_.add(beginUpTo(group),
                      scalars_.mul(comesAfter, scalars_.constant(rowsUpTo(group - 1))));
}

/// The quarter that comes first lies in its half as the rank's own quarter lies in the other half:
/// at the end of what is left if it is the second one, else at the beginning.
const Scalar *WaveCuts::begin(size_t number) const {
  if (!isPart(number))
    return beginOf(number);
  const Scalar *isSecond = comesBefore(groups_.size() - 2);
  const bool isFirstPart = number + 1 == groups_.size();
  const Scalar *isBehind = isFirstPart ? isSecond : scalars_.sub(scalars_.constant(1), isSecond);
  const int64_t others = groups_.back() - rows(number);
  return scalars_.add(beginOf(groups_.size() - 1),
                      scalars_.mul(isBehind, scalars_.constant(others)));
}

const Scalar *WaveCuts::end(size_t number) const {
  return scalars_.add(begin(number), scalars_.constant(rows(number)));
}

const Scalar *WaveCuts::ownBegin() const {
  return scalars_.mul(scalars_.rank(), scalars_.constant(blockRows_));
}

/// Each group that comes before takes those of its rows that are not of its own blocks.
const Scalar *WaveCuts::ownRowsBefore() const {
  const Scalar *before = scalars_.constant(0);
  for (size_t group = 1; group < groups_.size(); ++group)
    if (const int64_t more = moreThanBlocks(group))
      before = scalars_.add(before, scalars_.mul(comesBefore(group), scalars_.constant(more)));
  return before;
}

} // namespace braid
