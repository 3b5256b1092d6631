//===- tests/lowering/wave_cuts_test.cpp - where the products of doubling begin and end -------===//

#include "lowering/wave_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid {
namespace {

struct Rows {
  int64_t begin, end;
};

/// Of every product, on one rank.
std::vector<Rows> rowsOn(int64_t rank, const WaveCuts &cuts, size_t products) {
  auto on = [rank](const Scalar *scalar) {
    const ScalarValue value = evaluate(scalar, {.rank = rank});
    EXPECT_TRUE(value.isOk()) << scalar->str();
    return value.value;
  };
  std::vector<Rows> all;
  for (size_t i = 0; i < products; ++i) {
    all.push_back({on(cuts.begin(i)), on(cuts.end(i))});
    EXPECT_EQ(all.back().end - all.back().begin, cuts.rows(i)) << "as many on every rank";
  }
  EXPECT_EQ(on(cuts.ownBegin()) + on(cuts.ownRowsBefore()), all.front().begin);
  return all;
}

/// Each range continues what those before it cover, and all that is covered has come by then.
void expectRightOn(int64_t rank, int64_t blockRows, const WaveCuts &cuts, size_t products) {
  const std::vector<Rows> all = rowsOn(rank, cuts, products);
  Rows covered = all.front();
  for (size_t i = 0; i < products; ++i) {
    if (i > 0) {
      EXPECT_TRUE(all[i].end == covered.begin || all[i].begin == covered.end) << "product " << i;
      covered = {std::min(covered.begin, all[i].begin), std::max(covered.end, all[i].end)};
    }
    const int64_t group = blockRows << i, first = rank * blockRows / group * group;
    EXPECT_GE(covered.begin, first) << "product " << i;
    EXPECT_LE(covered.end, first + group) << "product " << i;
    const int64_t blocks = i == 0 ? blockRows : blockRows << (i - 1);
    const bool isInOwnBlocks = i > 0 && all[i].begin % blocks == 0 && cuts.rows(i) == blocks;
    EXPECT_TRUE(i == 0 || isInOwnBlocks || cuts.reachesBack(i)) << "product " << i;
  }
  EXPECT_EQ(covered.begin, 0);
  EXPECT_EQ(covered.end, blockRows << (products - 1));
}

TEST(WaveCuts, CoverAllRowsOnceOnEveryRank) {
  for (size_t products = 2; products <= 5; ++products)
    for (int64_t blockRows : {1, 2, 5, 64, 129, 2048})
      for (int64_t waveRows : {1, 2, 3, 7, 60, 264, 603, 1206, 5000}) {
        SCOPED_TRACE(testing::Message() << products << " products, blocks of " << blockRows
                                        << " rows, waves of " << waveRows);
        ScalarContext scalars;
        const int64_t ranks = int64_t(1) << (products - 1);
        const WaveCuts cuts(scalars, ranks, blockRows, waveRows);
        for (int64_t rank = 0; rank < ranks; ++rank)
          expectRightOn(rank, blockRows, cuts, products);
      }
}

std::vector<int64_t> rowsOf(int64_t ranks, int64_t blockRows, int64_t waveRows) {
  ScalarContext scalars;
  const WaveCuts cuts(scalars, ranks, blockRows, waveRows);
  std::vector<int64_t> rows;
  for (size_t i = 0; int64_t(1) << i <= ranks; ++i)
    rows.push_back(cuts.rows(i));
  return rows;
}

/// With 132 tiles of 128 by 256 at a time: 8192 rows and 3584 or 7168 columns, on 4 ranks.
TEST(WaveCuts, AreWholeWavesOfWholeTiles) {
  EXPECT_EQ(rowsOf(4, 2048, 1206), (std::vector<int64_t>{1152, 2304, 4736}));
  EXPECT_EQ(rowsOf(4, 2048, 603), (std::vector<int64_t>{1792, 2304, 4096}))
      << "a wave less would leave rows of a peer to a product that is not beside them";
  EXPECT_EQ(rowsOf(2, 4096, 1206), (std::vector<int64_t>{3584, 4608}));
  EXPECT_EQ(rowsOf(2, 7, 3), (std::vector<int64_t>{6, 8})) << "too small for tiles";
}

TEST(WaveCuts, LeaveBlocksThatAreNoWave) {
  EXPECT_EQ(rowsOf(4, 1024, 1206), (std::vector<int64_t>{1024, 1024, 2048}));
  ScalarContext scalars;
  EXPECT_FALSE(WaveCuts(scalars, 4, 1024, 1206).movesRows());
  EXPECT_TRUE(WaveCuts(scalars, 4, 1024, 1000).movesRows());
}

} // namespace
} // namespace braid
