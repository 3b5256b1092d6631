//===- tests/lowering/wave_cuts_test.cpp - where the GEMMs of doubling begin and end ----------===//

#include "lowering/stages/wave_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace braid {
namespace {

struct Rows {
  int64_t begin, end;
};

/// The rows of every GEMM on one rank.
std::vector<Rows> rowsOn(int64_t rank, const WaveCuts &cuts) {
  auto on = [rank](const Scalar *scalar) {
    const ScalarValue value = evaluate(scalar, {.rank = rank});
    EXPECT_TRUE(value.isOk()) << scalar->str();
    return value.value;
  };
  std::vector<Rows> all;
  for (size_t i = 0; i < cuts.gemms(); ++i) {
    all.push_back({on(cuts.begin(i)), on(cuts.end(i))});
    EXPECT_EQ(all.back().end - all.back().begin, cuts.rows(i)) << "as many on every rank";
    EXPECT_GT(cuts.rows(i), 0);
  }
  EXPECT_EQ(on(cuts.ownBegin()) + on(cuts.ownRowsBefore()), all.front().begin);
  return all;
}

/// The number of blocks that have come when GEMM `number` begins, this rank's included: those of as
/// many steps of the order in which `doubling` takes them.
int64_t blocksBefore(size_t number, int64_t ranks, bool isHalved) {
  const int64_t blocks = int64_t(1) << number;
  return isHalved && blocks == ranks ? ranks / 4 * 3 : std::min(blocks, ranks);
}

/// Every row is in one GEMM, and has come by then. Adds to `reaching` the GEMMs with rows of
/// blocks that earlier ones have waited for.
void expectRightOn(int64_t rank, int64_t ranks, int64_t blockRows, bool isHalved,
                   const WaveCuts &cuts, std::set<size_t> &reaching) {
  std::vector<Rows> all = rowsOn(rank, cuts);
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t here = blocksBefore(i, ranks, isHalved);
    const int64_t earlier = i == 0 ? 0 : blocksBefore(i - 1, ranks, isHalved);
    for (int64_t block = all[i].begin / blockRows; block * blockRows < all[i].end; ++block) {
      const int64_t step = rank ^ block;
      EXPECT_LT(step, here) << "GEMM " << i << ", block " << block;
      if (i > 0 && step < earlier)
        reaching.insert(i);
    }
  }
  std::sort(all.begin(), all.end(), [](Rows a, Rows b) { return a.begin < b.begin; });
  int64_t covered = 0;
  for (Rows rows : all) {
    EXPECT_EQ(rows.begin, covered);
    covered = rows.end;
  }
  EXPECT_EQ(covered, ranks * blockRows);
}

TEST(WaveCuts, CoverAllRowsOnceOnEveryRank) {
  for (bool isHalved : {false, true})
    for (int64_t ranks : {2, 4, 8, 16})
      for (int64_t blockRows : {1, 2, 5, 64, 129, 2048})
        for (int64_t waveRows : {1, 2, 3, 7, 60, 264, 603, 1206, 5000}) {
          SCOPED_TRACE(testing::Message()
                       << ranks << " ranks, blocks of " << blockRows << " rows, waves of "
                       << waveRows << (isHalved ? ", halved" : ""));
          ScalarContext scalars;
          const WaveCuts cuts(scalars, ranks, blockRows, waveRows, isHalved);
          std::set<size_t> reaching;
          for (int64_t rank = 0; rank < ranks; ++rank)
            expectRightOn(rank, ranks, blockRows, isHalved && ranks >= 4, cuts, reaching);
          for (size_t i = 1; i < cuts.gemms(); ++i)
            EXPECT_EQ(cuts.reachesBack(i), reaching.count(i) == 1) << "GEMM " << i;
        }
}

std::vector<int64_t> rowsOf(int64_t ranks, int64_t blockRows, int64_t waveRows,
                            bool isHalved = false) {
  ScalarContext scalars;
  const WaveCuts cuts(scalars, ranks, blockRows, waveRows, isHalved);
  std::vector<int64_t> rows;
  for (size_t i = 0; i < cuts.gemms(); ++i)
    rows.push_back(cuts.rows(i));
  return rows;
}

/// 132 tiles of 128 by 256 at a time: 8192 rows and 3584 or 7168 columns, on 4 ranks.
TEST(WaveCuts, AreWholeWavesOfWholeTiles) {
  EXPECT_EQ(rowsOf(4, 2048, 1206), (std::vector<int64_t>{1152, 2304, 4736}));
  EXPECT_EQ(rowsOf(4, 2048, 603), (std::vector<int64_t>{1792, 2304, 4096}))
      << "a wave less would leave rows of a peer to a GEMM that is not beside them";
  EXPECT_EQ(rowsOf(2, 4096, 1206), (std::vector<int64_t>{3584, 4608}));
  EXPECT_EQ(rowsOf(2, 7, 3), (std::vector<int64_t>{6, 8})) << "too small for tiles";
}

TEST(WaveCuts, HalveTheLastGemm) {
  EXPECT_EQ(rowsOf(4, 2048, 1206, true), (std::vector<int64_t>{1152, 2304, 1152, 3584}));
  EXPECT_EQ(rowsOf(4, 2048, 603, true), (std::vector<int64_t>{1792, 2304, 1792, 2304}));
  EXPECT_EQ(rowsOf(2, 4096, 1206, true), (std::vector<int64_t>{3584, 4608})) << "of one block";
  EXPECT_EQ(rowsOf(8, 1024, 1000, true), (std::vector<int64_t>{896, 1152, 2048, 1920, 2176}));
}

TEST(WaveCuts, LeaveBlocksThatAreNoWave) {
  EXPECT_EQ(rowsOf(4, 1024, 1206), (std::vector<int64_t>{1024, 1024, 2048}));
  ScalarContext scalars;
  EXPECT_FALSE(WaveCuts(scalars, 4, 1024, 1206).movesRows());
  EXPECT_TRUE(WaveCuts(scalars, 4, 1024, 1000).movesRows());
}

} // namespace
} // namespace braid
