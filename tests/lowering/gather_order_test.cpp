//===- tests/lowering/gather_order_test.cpp - which block a rank reads in each step -----------===//

#include "lowering/stages/gather_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace braid {
namespace {

int64_t on(int64_t rank, const Scalar *scalar) {
  const ScalarValue value = evaluate(scalar, {.rank = rank});
  EXPECT_TRUE(value.isOk()) << scalar->str();
  return value.value;
}

TEST(GatherOrder, TakesFromOneRankAndGivesToOneInEveryStep) {
  for (schedule::Order how : {schedule::Order::Shift, schedule::Order::Xor})
    for (int64_t ranks = 1; ranks <= 24; ++ranks) {
      ScalarContext scalars;
      const GatherOrder order(scalars, how, ranks);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::set<int64_t> taken;
        for (int64_t i = 0; i < ranks; ++i) {
          const Scalar *step = scalars.constant(i);
          const int64_t source = on(rank, order.source(step));
          taken.insert(source);
          EXPECT_EQ(on(source, order.target(step)), rank) << int(how) << " step " << i;
        }
        EXPECT_EQ(taken.size(), static_cast<size_t>(ranks));
        EXPECT_EQ(*taken.rbegin(), ranks - 1);
        EXPECT_EQ(on(rank, order.source(scalars.constant(0))), rank) << "the own block first";
      }
    }
}

void expectNeighboursOnEveryRank(int64_t ranks, bool halvesLast) {
  ScalarContext scalars;
  const GatherOrder order(scalars, schedule::Order::Xor, ranks);
  int64_t next = 1;
  for (const GatherOrder::Run &run : order.runs(halvesLast)) {
    EXPECT_EQ(run.begin, next);
    EXPECT_LE(run.end - run.begin, run.begin) << "no longer than all before it";
    next = run.end;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t i = run.begin; i < run.end; ++i) {
        const int64_t place = on(rank, order.source(scalars.constant(i))) - on(rank, run.first);
        EXPECT_TRUE(place >= 0 && place < run.end - run.begin)
            << "rank " << rank << " of " << ranks << ", step " << i;
      }
  }
  EXPECT_EQ(next, ranks);
}

TEST(GatherOrder, RunsAreNeighboursOnEveryRank) {
  for (bool halvesLast : {false, true})
    for (int64_t ranks = 2; ranks <= 24; ++ranks)
      expectNeighboursOnEveryRank(ranks, halvesLast);
}

TEST(GatherOrder, DoublesUpToTheLargestPowerOfTwo) {
  ScalarContext scalars;
  auto lengths = [&](int64_t ranks, bool halvesLast = false) {
    std::vector<int64_t> all;
    const GatherOrder order(scalars, schedule::Order::Xor, ranks);
    for (const GatherOrder::Run &run : order.runs(halvesLast))
      all.push_back(run.end - run.begin);
    return all;
  };
  EXPECT_EQ(lengths(8), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(lengths(12), (std::vector<int64_t>{1, 2, 4, 4}));
  EXPECT_EQ(lengths(6), (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(lengths(3), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(lengths(8, true), (std::vector<int64_t>{1, 2, 2, 2}));
  EXPECT_EQ(lengths(12, true), (std::vector<int64_t>{1, 2, 4, 2, 2}));
  EXPECT_EQ(lengths(3, true), (std::vector<int64_t>{1, 1})) << "nothing to halve";
  EXPECT_EQ(lengths(1, true), (std::vector<int64_t>{}));
}

} // namespace
} // namespace braid
