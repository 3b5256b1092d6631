//===- tests/runtime/block_pool_test.cpp - blocks within regions of memory --------------------===//

#include "runtime/execute/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kUnit = 256;

/// Returns an address without memory behind it; the pool never accesses memory.
void *somewhere(size_t number) { return reinterpret_cast<void *>((number + 1) << 40); }

size_t offsetOf(const BlockPool &pool, const void *block) { return pool.find(block)->offset; }

TEST(BlockPool, SplitsAndJoins) {
  BlockPool pool(kUnit);
  EXPECT_EQ(pool.allocate(1), nullptr);
  EXPECT_FALSE(pool.release(nullptr));
  pool.add(somewhere(0), 10 * kUnit);
  void *a = pool.allocate(1), *b = pool.allocate(3 * kUnit), *c = pool.allocate(2 * kUnit - 1);
  EXPECT_EQ(offsetOf(pool, a), 0u);
  EXPECT_EQ(offsetOf(pool, b), kUnit);
  EXPECT_EQ(offsetOf(pool, c), 4 * kUnit);
  EXPECT_EQ(pool.blockBytes(), 6 * kUnit);
  EXPECT_EQ(pool.allocate(5 * kUnit), nullptr);
  for (void *each : {a, c, b}) {
    EXPECT_TRUE(pool.release(each));
    EXPECT_FALSE(pool.release(each)) << "once";
  }
  EXPECT_EQ(pool.allocate(5 * kUnit), nullptr) << "a peer may not be done with it";
  EXPECT_EQ(pool.recycle().size(), 3u);
  EXPECT_EQ(pool.blockBytes(), 0u);
  EXPECT_EQ(pool.allocate(10 * kUnit), somewhere(0)) << "all of it, in one piece";
}

TEST(BlockPool, TakesTheSmallestPlaceThatWillDo) {
  BlockPool pool(kUnit);
  pool.add(somewhere(0), 8 * kUnit);
  void *wide = pool.allocate(4 * kUnit);
  pool.allocate(kUnit);
  void *narrow = pool.allocate(2 * kUnit);
  pool.allocate(kUnit);
  pool.release(wide);
  pool.release(narrow);
  pool.recycle();
  EXPECT_EQ(pool.allocate(2 * kUnit), narrow);
  EXPECT_EQ(pool.allocate(2 * kUnit), wide);
}

TEST(BlockPool, KnowsWhichRegionsMayGo) {
  BlockPool pool(kUnit);
  const uint32_t first = pool.add(somewhere(0), 4 * kUnit);
  const uint32_t second = pool.add(somewhere(1), 8 * kUnit);
  void *block = pool.allocate(4 * kUnit);
  EXPECT_THAT(pool.unusedRegions(), ElementsAre(second));
  pool.release(block);
  EXPECT_THAT(pool.unusedRegions(), ElementsAre(first, second));
  pool.recycle();
  pool.remove(first);
  EXPECT_EQ(pool.regionBytes(), 8 * kUnit);
  EXPECT_EQ(pool.allocate(4 * kUnit), somewhere(1));
  EXPECT_THAT(pool.unusedRegions(), IsEmpty());
  EXPECT_EQ(pool.add(somewhere(2), kUnit), 2u) << "a number stands for one region";
}

/// Returns all blocks as (region, offset) after a random sequence of calls. Regions start at
/// addresses that depend on `base`. Checks that blocks are disjoint and inside their regions.
std::vector<std::pair<uint32_t, size_t>> layoutOf(size_t base, unsigned seed) {
  constexpr size_t kRegion = 64 * kUnit;
  BlockPool pool(kUnit);
  std::mt19937 draw(seed);
  std::vector<void *> live;
  std::vector<std::pair<uint32_t, size_t>> places;
  std::set<std::pair<uint32_t, size_t>> units; // units occupied by live blocks
  size_t regions = 0, most = 0;
  auto unitsOf = [&](void *block, auto visit) {
    const BlockPool::Block place = *pool.find(block);
    for (size_t at = place.offset; at < place.offset + place.bytes; at += kUnit)
      visit(std::pair(place.region, at));
  };
  for (int step = 0; step < 3000; ++step) {
    if (!live.empty() && draw() % 2 == 0) {
      std::swap(live[draw() % live.size()], live.back());
      unitsOf(live.back(), [&](auto unit) { units.erase(unit); });
      pool.release(live.back());
      live.pop_back();
    } else {
      const size_t bytes = 1 + draw() % (20 * kUnit);
      void *block = pool.allocate(bytes);
      if (!block) {
        pool.add(somewhere(base + 7 * regions++), kRegion);
        block = pool.allocate(bytes);
      }
      live.push_back(block);
      unitsOf(block,
              [&](auto unit) { EXPECT_TRUE(unit.second < kRegion && units.insert(unit).second); });
      places.push_back({pool.find(block)->region, pool.find(block)->offset});
    }
    if (draw() % 4 == 0) {
      pool.recycle();
      EXPECT_EQ(pool.blockBytes(), units.size() * kUnit);
    }
    most = std::max(most, pool.blockBytes());
  }
  EXPECT_LT(pool.regionBytes(), 2 * most) << "what is free is used again";
  for (void *block : live)
    pool.release(block);
  pool.recycle();
  EXPECT_EQ(pool.unusedRegions().size(), regions);
  return places;
}

TEST(BlockPool, RanksThatCallAlikeHaveEqualLayouts) {
  for (unsigned seed = 0; seed < 10; ++seed)
    EXPECT_EQ(layoutOf(0, seed), layoutOf(100, seed));
}

} // namespace
} // namespace braid
