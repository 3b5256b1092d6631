//===- runtime/check/contents.h - symbolic contents of one memory -----------------------------===//
#pragma once

#include "runtime/check/terms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>

namespace braid::checker {

class MemoryContents {
public:
  Pieces read(int64_t begin, int64_t end) const {
    Pieces pieces;
    for (size_t i = find(begin); begin < end; ++i) {
      const bool isLast = i + 1 == stretches_.size();
      const int64_t to = isLast ? end : std::min(end, stretches_[i + 1].begin);
      append(pieces, {stretches_[i].term, begin - stretches_[i].origin, to - begin});
      begin = to;
    }
    return pieces;
  }

  void write(int64_t begin, const Pieces &pieces) {
    llvm::SmallVector<Stretch, 4> made;
    int64_t end = begin;
    for (const Piece &piece : pieces) {
      made.push_back({end, end - piece.offset, piece.term});
      end += piece.bytes;
    }
    if (begin == end)
      return;
    const size_t last = find(end), before = find(begin);
    const size_t first = stretches_[before].begin < begin ? before + 1 : before;
    made.push_back({end, stretches_[last].origin, stretches_[last].term});
    // Replaces stretches `first` to `last`.
    const size_t kept = std::min(made.size(), last + 1 - first);
    auto at = std::copy_n(made.begin(), kept, placeOf(first));
    at = stretches_.erase(at, placeOf(last + 1));
    stretches_.insert(at, made.begin() + kept, made.end());
  }

private:
  /// The bytes from `begin` to the next stretch belong to a term whose first byte is at `origin`.
  struct Stretch {
    int64_t begin, origin;
    TermId term;
  };

  std::vector<Stretch>::iterator placeOf(size_t index) {
    return stretches_.begin() + static_cast<ptrdiff_t>(index);
  }
  /// Returns the index of the stretch that contains byte `at`.
  size_t find(int64_t at) const {
    const auto next = llvm::upper_bound(
        stretches_, at, [](int64_t byte, const Stretch &each) { return byte < each.begin; });
    return static_cast<size_t>(next - stretches_.begin()) - 1;
  }

  /// Sorted by `begin`. The first stretch has no lower bound.
  std::vector<Stretch> stretches_{{std::numeric_limits<int64_t>::min(), 0, kUndefined}};
};

} // namespace braid::checker
