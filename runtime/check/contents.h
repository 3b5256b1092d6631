//===- runtime/check/contents.h - symbolic contents of one memory -----------------------------===//
#pragma once

#include "runtime/check/access.h"
#include "runtime/check/terms.h"

namespace braid::checker {

class MemoryContents {
public:
  Pieces read(int64_t begin, int64_t end) const;
  void write(int64_t begin, const Pieces &pieces);

private:
  /// A piece that starts at byte `begin`.
  struct Stretch {
    int64_t begin;
    Piece piece;

    int64_t end() const { return begin + piece.bytes; }
    Stretch before(int64_t at) const { return {begin, {piece.term, piece.offset, at - begin}}; }
    Stretch from(int64_t at) const {
      return {at, {piece.term, piece.offset + (at - begin), end() - at}};
    }
  };

  size_t find(int64_t at) const;
  void replace(size_t first, size_t last, llvm::ArrayRef<Stretch> made);

  std::vector<Stretch> stretches_; ///< in order; bytes in gaps are unwritten
  mutable size_t last_ = 0;        ///< index of the last stretch found
};

} // namespace braid::checker
