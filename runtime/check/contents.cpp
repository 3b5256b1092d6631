//===- runtime/check/contents.cpp - symbolic contents of one memory ---------------------------===//

#include "runtime/check/contents.h"

#include <algorithm>

namespace braid::checker {

Pieces MemoryContents::read(int64_t begin, int64_t end) const {
  Pieces pieces;
  int64_t at = begin;
  for (size_t i = find(begin); i < stretches_.size() && stretches_[i].begin < end; ++i) {
    const Stretch &stretch = stretches_[i];
    const int64_t from = std::max(begin, stretch.begin), to = std::min(end, stretch.end());
    if (from > at)
      append(pieces, {kUndefined, 0, from - at});
    append(pieces, {stretch.piece.term, stretch.piece.offset + (from - stretch.begin), to - from});
    at = to;
  }
  if (at < end)
    append(pieces, {kUndefined, 0, end - at});
  return pieces;
}

void MemoryContents::write(int64_t begin, const Pieces &pieces) {
  const int64_t end = begin + bytesOf(pieces);
  if (begin == end)
    return;
  const size_t first = find(begin);
  size_t last = first;
  while (last < stretches_.size() && stretches_[last].begin < end)
    ++last;
  llvm::SmallVector<Stretch, 4> made;
  if (first < last && stretches_[first].begin < begin)
    made.push_back(stretches_[first].before(begin));
  int64_t at = begin;
  for (const Piece &piece : pieces) {
    if (piece.term != kUndefined)
      made.push_back({at, piece});
    at += piece.bytes;
  }
  if (first < last && stretches_[last - 1].end() > end)
    made.push_back(stretches_[last - 1].from(end));
  replace(first, last, made);
}

/// Returns the first stretch that ends after `at`. Tries the last result and its successor first.
size_t MemoryContents::find(int64_t at) const {
  for (size_t guess : {last_, last_ + 1})
    if (guess < stretches_.size() && stretches_[guess].begin <= at && at < stretches_[guess].end())
      return last_ = guess;
  auto found = std::partition_point(stretches_.begin(), stretches_.end(),
                                    [&](const Stretch &stretch) { return stretch.end() <= at; });
  return last_ = static_cast<size_t>(found - stretches_.begin());
}

void MemoryContents::replace(size_t first, size_t last, llvm::ArrayRef<Stretch> made) {
  const size_t kept = std::min(last - first, made.size());
  const auto at =
      std::copy_n(made.begin(), kept, stretches_.begin() + static_cast<ptrdiff_t>(first));
  if (kept < made.size())
    stretches_.insert(at, made.begin() + kept, made.end());
  else
    stretches_.erase(at, stretches_.begin() + static_cast<ptrdiff_t>(last));
}

} // namespace braid::checker
