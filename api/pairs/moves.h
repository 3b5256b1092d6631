//===- api/pairs/moves.h - who sends to whom in a run -----------------------------------------===//
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace braid {

/// Ranks. Each has rows of blocks that it sends, and as many that it receives: one, or where all
/// run at once, one for each peer.
struct Moves {
  enum class Kind : uint8_t {
    OneWay,       ///< `source` sends to `destination`
    ThereAndBack, ///< and that one answers each block with one
    Together,     ///< every rank sends to every other, all at once
  } kind = Kind::OneWay;
  int64_t source = 0, destination = 1;                   ///< not of Together
  std::vector<std::pair<int64_t, int64_t>> without = {}; ///< of Together: pairs that do not run

  /// A peer, and the row of the blocks for it or from it.
  struct End {
    int64_t peer, row;
  };
  std::vector<End> sendsOf(int64_t rank, int64_t ranks) const;
  std::vector<End> receivesOf(int64_t rank, int64_t ranks) const;
  /// Of blocks that a rank sends.
  int64_t rows(int64_t ranks) const { return kind == Kind::Together ? ranks : 1; }

private:
  bool runs(int64_t from, int64_t to) const;
  int64_t rowOf(int64_t peer) const { return kind == Kind::Together ? peer : 0; }
};

} // namespace braid
