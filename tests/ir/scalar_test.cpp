//===- tests/ir/scalar_test.cpp - folding, uniquing, evaluating and printing scalars ----------===//

#include "ir/scalar.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace braid {
namespace {

TEST(Scalar, EqualExpressionsAreEqualPointers) {
  ScalarContext ctx;
  const Scalar *i = ctx.addLoopIndex("i");
  EXPECT_EQ(ctx.add(ctx.rank(), i), ctx.add(ctx.rank(), i));
  EXPECT_NE(ctx.add(ctx.rank(), i), ctx.add(i, ctx.rank()));
  EXPECT_EQ(ctx.constant(7), ctx.add(ctx.constant(3), ctx.constant(4)));
  EXPECT_NE(ctx.addLoopIndex("i"), i) << "two loops may use one name";
  EXPECT_EQ(ctx.loopIndexCount(), 2);
}

TEST(Scalar, FoldsWhatHoldsForEveryValue) {
  ScalarContext ctx;
  ctx.setRanks(8);
  const Scalar *rank = ctx.rank(), *zero = ctx.constant(0), *one = ctx.constant(1);
  EXPECT_EQ(ctx.mod(ctx.add(rank, zero), ctx.constant(8)), rank);
  EXPECT_EQ(ctx.add(zero, rank), rank);
  EXPECT_EQ(ctx.sub(rank, zero), rank);
  EXPECT_EQ(ctx.mul(one, rank), rank);
  EXPECT_EQ(ctx.mul(rank, one), rank);
  EXPECT_EQ(ctx.div(rank, one), rank);
  EXPECT_NE(ctx.mod(rank, ctx.constant(7)), rank);
  EXPECT_EQ(ctx.binary(ScalarKind::Lt, one, zero), zero);
  EXPECT_EQ(ctx.binary(ScalarKind::Ne, one, zero), one);
}

TEST(Scalar, FoldsSmallOffsetsFromRank) {
  ScalarContext ctx;
  auto c = [&](int64_t value) { return ctx.constant(value); };
  const Scalar *rank = ctx.rank();
  EXPECT_EQ(ctx.sub(ctx.add(rank, c(1)), c(1)), rank);
  EXPECT_EQ(ctx.add(ctx.sub(rank, c(3)), c(1))->str(), "rank - 2");
  EXPECT_EQ(ctx.sub(ctx.add(rank, c(5)), c(2))->str(), "rank + 3");
  // An operation that may overflow is kept, so that evaluation reports it.
  EXPECT_EQ(ctx.sub(ctx.add(rank, c(INT64_MAX)), c(INT64_MAX))->str(),
            "rank + 9223372036854775807 - 9223372036854775807");
}

TEST(Scalar, WhatCannotBeComputedIsNotFolded) {
  ScalarContext ctx;
  const Scalar *largest = ctx.constant(INT64_MAX), *zero = ctx.constant(0);
  const Scalar *sum = ctx.add(largest, ctx.constant(1));
  EXPECT_EQ(sum->kind(), ScalarKind::Add);
  EXPECT_EQ(evaluate(sum, {}).error, ScalarError::Overflow);
  EXPECT_EQ(evaluate(ctx.mul(largest, ctx.constant(2)), {}).error, ScalarError::Overflow);
  EXPECT_EQ(evaluate(ctx.sub(ctx.constant(-2), largest), {}).error, ScalarError::Overflow);
  EXPECT_EQ(evaluate(ctx.div(largest, zero), {}).error, ScalarError::DivideByZero);
  EXPECT_EQ(evaluate(ctx.mod(largest, zero), {}).error, ScalarError::DivideByZero);
  EXPECT_EQ(evaluate(ctx.div(ctx.constant(INT64_MIN), ctx.constant(-1)), {}).error,
            ScalarError::Overflow);
}

TEST(Scalar, ModIsNeverNegativeAndDivisionRoundsDown) {
  ScalarContext ctx;
  struct {
    int64_t a, b, quotient, remainder;
  } rows[] = {{7, 3, 2, 1}, {-7, 3, -3, 2}, {-6, 3, -2, 0}, {INT64_MIN, 2, INT64_MIN / 2, 0}};
  for (const auto &row : rows) {
    EXPECT_TRUE(ctx.div(ctx.constant(row.a), ctx.constant(row.b))->isConstant(row.quotient));
    EXPECT_TRUE(ctx.mod(ctx.constant(row.a), ctx.constant(row.b))->isConstant(row.remainder));
  }
  EXPECT_TRUE(ctx.mod(ctx.constant(INT64_MIN), ctx.constant(-1))->isConstant(0));
  EXPECT_TRUE(ctx.mod(ctx.constant(-7), ctx.constant(-3))->isConstant(2));
}

TEST(Scalar, XorIsBitByBit) {
  ScalarContext ctx;
  auto c = [&](int64_t value) { return ctx.constant(value); };
  const Scalar *rank = ctx.rank();
  EXPECT_EQ(ctx.bitXor(c(6), c(3)), c(5));
  EXPECT_EQ(ctx.bitXor(c(-1), c(3)), c(-4));
  EXPECT_EQ(ctx.bitXor(rank, c(0)), rank);
  EXPECT_EQ(ctx.bitXor(c(0), rank), rank);
  EXPECT_EQ(evaluate(ctx.bitXor(rank, c(5)), {.rank = 6}).value, 3);
  // `xor` has lower precedence than arithmetic and higher precedence than comparisons.
  EXPECT_EQ(ctx.add(ctx.bitXor(rank, c(2)), c(1))->str(), "(rank xor 2) + 1");
  EXPECT_EQ(ctx.bitXor(ctx.add(rank, c(2)), c(1))->str(), "rank + 2 xor 1");
  EXPECT_EQ(ctx.bitXor(rank, ctx.bitXor(rank, c(1)))->str(), "rank xor (rank xor 1)");
  EXPECT_EQ(ctx.binary(ScalarKind::Eq, ctx.bitXor(rank, c(1)), c(1))->str(), "rank xor 1 == 1");
}

TEST(Scalar, MinAndMaxAreCalls) {
  ScalarContext ctx;
  auto c = [&](int64_t value) { return ctx.constant(value); };
  const Scalar *rank = ctx.rank();
  EXPECT_EQ(ctx.min(c(6), c(-3)), c(-3));
  EXPECT_EQ(ctx.max(c(6), c(-3)), c(6));
  EXPECT_EQ(ctx.min(rank, rank), rank);
  EXPECT_EQ(evaluate(ctx.max(ctx.min(rank, c(5)), c(2)), {.rank = 1}).value, 2);
  EXPECT_EQ(ctx.sub(c(1), ctx.max(ctx.add(rank, c(1)), c(2)))->str(), "1 - max(rank + 1, 2)");
  EXPECT_EQ(ctx.mul(ctx.min(rank, c(2)), c(3))->str(), "min(rank, 2) * 3");
  EXPECT_EQ(ctx.div(ctx.min(rank, c(2)), c(3))->str(), "min(rank, 2) / 3");
}

TEST(Scalar, CeilRoundsUpAndStays) {
  ScalarContext ctx(Division::Exact);
  auto ceil = [&](int64_t a, int64_t b) {
    return evaluate(ctx.ceil(ctx.constant(a), ctx.constant(b)), {});
  };
  EXPECT_EQ(ceil(1001, 8).value, 126);
  EXPECT_EQ(ceil(8, 8).value, 1);
  EXPECT_EQ(ceil(-7, 2).value, -3);
  EXPECT_EQ(ceil(7, -1).value, -7);
  EXPECT_EQ(ceil(7, 0).error, ScalarError::DivideByZero);
  EXPECT_EQ(ceil(INT64_MIN, -1).error, ScalarError::Overflow);
  EXPECT_EQ(ctx.ceil(ctx.constant(8), ctx.constant(2))->str(), "ceil(8, 2)");
}

TEST(Scalar, ExactDivisionRefusesARemainder) {
  ScalarContext ctx(Division::Exact);
  const Scalar *quotient = ctx.div(ctx.constant(1000), ctx.constant(7));
  EXPECT_EQ(quotient->kind(), ScalarKind::Div);
  EXPECT_EQ(evaluate(quotient, {.division = Division::Exact}).error, ScalarError::Inexact);
  EXPECT_TRUE(ctx.div(ctx.constant(1000), ctx.constant(8))->isConstant(125));
}

TEST(Scalar, EvaluatesLeavesOrSaysThatTheyHaveNoValue) {
  ScalarContext ctx;
  const Scalar *i = ctx.addLoopIndex("i"), *d = ctx.addParameter("D");
  const Scalar *sum = ctx.add(ctx.mul(ctx.rank(), d), i);
  int64_t loops[] = {5}, parameters[] = {10};
  ScalarValue value = evaluate(sum, {.rank = 3, .parameters = parameters, .loops = loops});
  EXPECT_TRUE(value.isOk());
  EXPECT_EQ(value.value, 35);
  EXPECT_EQ(evaluate(sum, {.rank = 3, .parameters = parameters}).error, ScalarError::Unbound);
  EXPECT_EQ(evaluate(sum, {.rank = 3, .loops = loops}).error, ScalarError::Unbound);
  EXPECT_EQ(evaluate(sum, {.parameters = parameters, .loops = loops}).error, ScalarError::Unbound);
}

TEST(Scalar, ComparisonsAreOneOrZero) {
  ScalarContext ctx;
  struct {
    ScalarKind kind;
    bool less, equal, greater;
  } rows[] = {{ScalarKind::Eq, false, true, false}, {ScalarKind::Ne, true, false, true},
              {ScalarKind::Lt, true, false, false}, {ScalarKind::Le, true, true, false},
              {ScalarKind::Gt, false, false, true}, {ScalarKind::Ge, false, true, true}};
  for (const auto &row : rows) {
    const Scalar *test = ctx.binary(row.kind, ctx.rank(), ctx.constant(4));
    EXPECT_EQ(evaluate(test, {.rank = 3}).value, row.less) << test->str();
    EXPECT_EQ(evaluate(test, {.rank = 4}).value, row.equal) << test->str();
    EXPECT_EQ(evaluate(test, {.rank = 5}).value, row.greater) << test->str();
  }
}

TEST(Scalar, PrintsTheFewestParentheses) {
  ScalarContext ctx;
  const Scalar *i = ctx.addLoopIndex("i"), *m = ctx.addParameter("M"), *d = ctx.addParameter("D");
  const Scalar *rank = ctx.rank(), *eight = ctx.constant(8);
  EXPECT_EQ(ctx.mod(ctx.add(rank, i), eight)->str(), "(rank + %i) mod 8");
  EXPECT_EQ(ctx.add(rank, ctx.mod(i, eight))->str(), "rank + %i mod 8");
  EXPECT_EQ(ctx.sub(rank, ctx.sub(i, eight))->str(), "rank - (%i - 8)");
  EXPECT_EQ(ctx.sub(ctx.sub(rank, i), eight)->str(), "rank - %i - 8");
  EXPECT_EQ(ctx.div(m, d)->str(), "M/D");
  EXPECT_EQ(ctx.mul(ctx.div(m, d), ctx.mul(m, d))->str(), "M/D * (M * D)");
  EXPECT_EQ(ctx.add(rank, ctx.constant(-3))->str(), "rank + -3");
  EXPECT_EQ(ctx.binary(ScalarKind::Ne, i, ctx.constant(0))->str(), "%i != 0");
}

TEST(Scalar, SubstitutesAndFoldsAgain) {
  ScalarContext ctx;
  ctx.setRanks(4);
  const Scalar *i = ctx.addLoopIndex("i");
  const Scalar *peer = ctx.mod(ctx.add(ctx.rank(), i), ctx.constant(4));
  EXPECT_EQ(ctx.substitute(peer, i, ctx.constant(0)), ctx.rank());
  EXPECT_EQ(ctx.substitute(peer, i, ctx.constant(1))->str(), "(rank + 1) mod 4");
  EXPECT_EQ(ctx.substitute(peer, ctx.addLoopIndex("j"), ctx.constant(1)), peer);
}

TEST(Scalar, ErrorsAreDescribed) {
  EXPECT_EQ(describe(ScalarError::Overflow), "overflows 64 bits");
  EXPECT_EQ(describe(ScalarError::DivideByZero), "divides by zero");
  EXPECT_EQ(describe(ScalarError::Inexact), "is not an integer");
  EXPECT_EQ(describe(ScalarError::Unbound), "uses a name that is not in scope here");
}

} // namespace
} // namespace braid
