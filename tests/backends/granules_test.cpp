//===- tests/backends/granules_test.cpp - granules of any alignment contain the right bytes ---===//

#include "backends/cuda/granules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace braid::cuda {
namespace {

constexpr char kPoison = '\x5a';

/// Memory that begins at a granule boundary and is one granule longer than `bytes` can need.
struct Memory {
  explicit Memory(int64_t bytes) : granules(static_cast<size_t>(bytes) / 16 + 3) {}
  char *at(int64_t offset) { return reinterpret_cast<char *>(granules.data()) + offset; }
  int64_t bytes() const { return static_cast<int64_t>(granules.size()) * 16; }
  std::vector<Granule> granules;
};

using Reads = std::array<Granule, kGranulesEach + 1>;

/// Copies a tile in the steps of one team of the kernel, see copyTile() in copy_and_signal.cu.
void copyTile(const Tile &tile) {
  const GranuleTile granules(tile);
  std::vector<Reads> reads(kTeam);
  for (uint32_t thread = 0; thread < kTeam; ++thread)
    for (uint32_t i = 0; i <= kGranulesEach; ++i)
      if (const uint32_t at = granuleOf(thread, i);
          at < granules.reads && (i < kGranulesEach || thread % kWarp == 0))
        reads[thread][i] = granules.src[at];
  for (uint32_t thread = 0; thread < kTeam; ++thread)
    for (uint32_t i = 0; i < kGranulesEach; ++i) {
      const bool isLast = thread % kWarp == kWarp - 1;
      const Granule &next = isLast ? reads[thread - kWarp + 1][i + 1] : reads[thread + 1][i];
      if (const uint32_t at = granuleOf(thread, i); at < granules.writes)
        granules.dst[at] = assemble(reads[thread][i], next, granules.shift);
    }
  ASSERT_LE(granules.edges, 30u);
  for (uint32_t i = 0; i < granules.edges; ++i)
    tile.dst[granules.edgeAt(i)] = tile.src[granules.edgeAt(i)];
}

/// Checks that only granules that overlap the tile's source are read.
void checkReads(const Tile &tile) {
  const GranuleTile granules(tile);
  const auto first = reinterpret_cast<uintptr_t>(tile.src) / 16,
             last = (reinterpret_cast<uintptr_t>(tile.src) + tile.bytes - 1) / 16;
  if (granules.reads == 0)
    return;
  const auto from = reinterpret_cast<uintptr_t>(granules.src) / 16;
  EXPECT_GE(from, first);
  EXPECT_LE(from + granules.reads - 1, last);
}

void checkCopy(int64_t bytes, int64_t dstOffset, int64_t srcOffset) {
  Memory source(bytes), target(bytes);
  for (int64_t i = 0; i < source.bytes(); ++i)
    *source.at(i) = static_cast<char>(i * 131 + i / 256);
  std::fill(target.at(0), target.at(target.bytes()), kPoison);
  const CopyAndSignalCopy copy{target.at(dstOffset), source.at(srcOffset), bytes};
  TileWalk walk(&copy, 1, 0, 1);
  for (Tile tile; walk.next(tile);) {
    checkReads(tile);
    copyTile(tile);
  }
  for (int64_t i = 0; i < target.bytes(); ++i) {
    const bool isWanted = i >= dstOffset && i < dstOffset + bytes;
    const char expected = isWanted ? *source.at(i - dstOffset + srcOffset) : kPoison;
    ASSERT_EQ(*target.at(i), expected) << bytes << " bytes, byte " << i - dstOffset << ", from "
                                       << srcOffset << " to " << dstOffset;
  }
}

void checkAllAlignments(int64_t bytes) {
  for (int64_t dst = 0; dst < 16; ++dst)
    for (int64_t src = 0; src < 16; ++src)
      checkCopy(bytes, dst, src);
}

TEST(Granules, FewBytes) {
  for (int64_t bytes = 0; bytes <= 100; ++bytes)
    checkAllAlignments(bytes);
}

TEST(Granules, AroundBordersOfWarpsAndTiles) {
  for (int64_t border : {kTileBytes / 4, kTileBytes, 2 * kTileBytes})
    for (int64_t beside : {-17, -16, -15, -1, 0, 1, 15, 16, 17})
      checkAllAlignments(border + beside);
}

TEST(Granules, EveryGranuleOfATileIsOneThreads) {
  std::vector<int> owners(static_cast<size_t>(kTileBytes / 16));
  for (uint32_t thread = 0; thread < kTeam; ++thread)
    for (uint32_t i = 0; i < kGranulesEach; ++i)
      ++owners.at(granuleOf(thread, i));
  for (int owner : owners)
    EXPECT_EQ(owner, 1);
}

} // namespace
} // namespace braid::cuda
