//===- tests/backends/tiles_test.cpp - division of copies among blocks ------------------------===//

#include "backends/cuda/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace braid::cuda {
namespace {

/// Distributes copies over at most `most` blocks and checks that each byte is copied once.
void checkDealing(const std::vector<int64_t> &sizes, int64_t most) {
  std::vector<std::vector<char>> sources, targets;
  std::vector<CopyAndSignalCopy> copies;
  int64_t tiles = 0;
  for (int64_t size : sizes) {
    sources.emplace_back(static_cast<size_t>(size) + 1, 'x');
    targets.emplace_back(static_cast<size_t>(size) + 1, '\0');
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    copies.push_back({targets[i].data(), sources[i].data(), sizes[i]});
    tiles += tilesOf(copies.back());
  }
  const auto blocks = static_cast<uint32_t>(std::min(tiles, most));
  int64_t dealt = 0;
  for (uint32_t block = 0; block < blocks; ++block) {
    TileWalk walk(copies.data(), static_cast<uint32_t>(copies.size()), block, blocks);
    int64_t own = 0;
    for (Tile tile; walk.next(tile); ++own) {
      ASSERT_LT(tile.copy, copies.size());
      ASSERT_GT(tile.bytes, 0u);
      ASSERT_EQ(tile.src - copies[tile.copy].src, tile.dst - copies[tile.copy].dst);
      for (uint32_t i = 0; i < tile.bytes; ++i)
        tile.dst[i] += 1;
    }
    // Every block needs a tile, because the kernel waits only for blocks that have tiles.
    EXPECT_GE(own, tiles / blocks) << "block " << block << " of " << blocks;
    EXPECT_LE(own, tiles / blocks + 1);
    dealt += own;
  }
  EXPECT_EQ(dealt, tiles);
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(std::count(targets[i].begin(), targets[i].end(), 1), sizes[i]) << "copy " << i;
    EXPECT_EQ(targets[i].back(), 0) << "copy " << i;
  }
}

TEST(Tiles, CopiesOfOneSize) {
  for (int64_t blocks : {1, 2, 3, 32, 64, 1000}) {
    checkDealing({kTileBytes * 8, kTileBytes * 8, kTileBytes * 8}, blocks);
    checkDealing({kTileBytes * 5 + 16}, blocks);
    checkDealing({1}, blocks);
  }
}

TEST(Tiles, CopiesOfVeryDifferentSizes) {
  for (int64_t blocks : {1, 4, 48, 64}) {
    checkDealing({kTileBytes * 3, kTileBytes}, blocks);
    checkDealing({kTileBytes * 64, kTileBytes}, blocks);
    checkDealing({kTileBytes * 16, kTileBytes * 16, kTileBytes * 8, kTileBytes * 8}, blocks);
    checkDealing({0, kTileBytes * 7 + 1, 0, 5}, blocks);
  }
}

TEST(Tiles, AnyCopies) {
  std::mt19937 dice(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> sizes(1 + dice() % 16);
    for (int64_t &size : sizes)
      size = dice() % 4 == 0 ? 0 : static_cast<int64_t>(dice() % (kTileBytes * 20));
    checkDealing(sizes, 1 + dice() % 64);
  }
}

} // namespace
} // namespace braid::cuda
