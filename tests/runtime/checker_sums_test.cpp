//===- tests/runtime/checker_sums_test.cpp - every partial result is added exactly once -------===//
//
// Tests hand-written reductions, and the checker's messages for partial results that are missing,
// added twice, wrong or too late. Also tests the order of additions.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/support/checked.h"
#include "tests/support/reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using namespace test;
using namespace test::reductions;
using testing::HasSubstr;
using testing::Not;

constexpr const char *kProved =
    "result     every output is computed once, from the correct blocks of the same run\n";
const CheckOptions kOrdered{.ordered = true};

//===- Accepted -------------------------------------------------------------------------------===//

/// Calls `fn` for 1 to 4 ranks and all element and partial-result types, with and without a bias.
template <class Fn> void forEachOptions(Fn fn) {
  for (int64_t ranks : {1, 2, 3, 4})
    for (const char *dtype : {"f32", "bf16", "f16", "f64"})
      for (bool hasBias : {false, true}) {
        // A single rank adds the bias to its GEMM, whose result must not be rounded before that.
        if (ranks > 1 || !hasBias || sizeOf(*dtypeFromName(dtype)) > 2)
          fn({ranks, dtype, dtype, hasBias});
        if (dtype[1] == 'f' || dtype == std::string("f16"))
          fn({ranks, dtype, "f32", hasBias});
      }
}

void expectProved(const std::string &text, const CheckOptions &options = {}) {
  EXPECT_THAT(verdict(text, options), HasSubstr(kProved)) << text;
}

TEST(CheckerSums, PartialResultsAddedInOrder) {
  forEachOptions([](const Options &options) {
    expectProved(scatterByPut(options), kOrdered);
    expectProved(scatterAtPeers(options), kOrdered);
    expectProved(scatterByGet(options), kOrdered);
    expectProved(scatterInChunks(options), kOrdered);
    expectProved(reduceToAll(options), kOrdered);
    expectProved(scatterByPut(options));
    expectProved(reduceToAll(options));
  });
}

/// Unless an order is required, sums of sums are accepted.
TEST(CheckerSums, PartialResultsAddedInAnyOrder) {
  forEachOptions([](const Options &options) {
    // The bias has the result's type, so only the last sum can add it.
    if (options.ranks > 1)
      expectProved(scatterAroundRing(options));
  });
}

TEST(CheckerSums, Chain) {
  for (int64_t ranks : {1, 2, 3, 4})
    for (const char *partial : {"bf16", "f32"})
      expectProved(gatherAndScatter({ranks, "bf16", partial}), kOrdered);
}

/// The second operand is replicated, and each rank uses only its block of it.
TEST(CheckerSums, SecondOperandThatIsWholeOnEveryRank) {
  const std::string text =
      edited(reduceToAll({2}), {{"f32[DIDx{D}, 2, 4]", "f32[D, 2, 4]"},
                                {"f32[1, 2, 4]", "f32[2, 2, 4]"},
                                {"  matmul %own, %A, %B\n", "  %b = slice %B[rank .. rank + 1]\n"
                                                            "  matmul %own, %A, %b\n"}});
  expectProved(text);
  EXPECT_THAT(verdict(edited(text, {{"%B[rank .. rank + 1]", "%B[0 .. 1]"}})),
              HasSubstr("  it lacks the partial result of rank 1\n"
                        "  it has the matmul of %A of rank 1 in run 1\n"));
}

struct NotFollowed {
  const char *inputs, *result; ///< parts of the fusion's text
  const char *params, *body;
  const char *why;
};

TEST(CheckerSums, WhatCannotBeFollowedIsSaid) {
  const NotFollowed all[] = {
      {"%A = input f32[3, DIDx{D}, 2] %B = input f32[DIDx{D}, 2, 2, 2]",
       "matmul %A, %B : f32[3, DIDx{D}, 2]",
       "(%A: f32[3, 1, 2], %B: f32[1, 2, 2, 2]) -> (%C: f32[3, 1, 2])", "set %C, %A",
       "%C reshards an axis of its second operand, %B"},
      {"%A = input f32[3, 2, DIDx{D}, 2] %B = input f32[DIDx{D}, 2, 2]",
       "matmul %A, %B : f32[3, DIDx{D}, 2]",
       "(%A: f32[3, 2, 1, 2], %B: f32[1, 2, 2]) -> (%C: f32[3, 1, 2])",
       "for %i in 0 .. 3 { %c = select %C[%i] %a = select %A[%i] %b = select %a[0] set %c, %b }",
       "%C reshards axis 1 of %A, which is not the leading axis"},
      {"%A = input f32[3, D, 2] %B = input f32[DIDx{D}, 2, 2]", "matmul %A, %B : f32[3, 2]",
       "(%A: f32[3, 2, 2], %B: f32[1, 2, 2]) -> (%C: f32[3, 2])",
       "for %i in 0 .. 3 { %c = select %C[%i] %a = select %A[%i] %b = select %a[0] set %c, %b }",
       "%C contracts axis 1 of %A, which is not sharded"},
      {"%A = input f32[3, DIDx{D}, 2] %B = input f32[2, D, 2]", "linear %A, %B : f32[3, 2]",
       "(%A: f32[3, 1, 2], %B: f32[2, 2, 2]) -> (%C: f32[3, 2])",
       "for %i in 0 .. 3 { %c = select %C[%i] %a = select %A[%i] %b = select %a[0] set %c, %b }",
       "%C contracts axis 1 of %B, which is not sharded"},
  };
  for (const NotFollowed &each : all)
    EXPECT_THAT(verdict(std::string("fusion @f(D = 2) { mesh [0 .. D) ") + each.inputs + " %C = " +
                        each.result + " output %C }\nprogram @p implements @f mesh [0 .. 2) " +
                        each.params + " { " + each.body + " }\n"),
                HasSubstr(std::string("not checked: ") + each.why + "\n"));
}

//===- Wrong addends --------------------------------------------------------------------------===//

/// Matches the notes about rank 0's output that follow the list of writers.
testing::Matcher<std::string> wrongSum(const std::vector<std::string> &notes) {
  std::string text = "  rank 0, main, run 1: the caller reads the outputs\n";
  for (const std::string &note : notes)
    text += "  " + note + "\n";
  return testing::AllOf(
      testing::StartsWith("unsafe (result): %C differs from its definition, starting at byte 0\n"),
      testing::EndsWith(text));
}
const std::string kA0 = "the matmul of %A of rank 0 in run 1",
                  kA1 = "the matmul of %A of rank 1 in run 1",
                  kA2 = "the matmul of %A of rank 2 in run 1";
const std::string kExpected =
    "expected the sum of " + kA0 + ", " + kA1 + " and " + kA2 + " (starting at its byte 0)";

TEST(CheckerSums, OneIsMissing) {
  EXPECT_THAT(
      verdict(edited(scatterByPut({}), {{"  sum %c, %parts\n", "  %some = slice %parts[0 .. 2]\n"
                                                               "  sum %c, %some\n"}})),
      wrongSum({"it holds the sum of " + kA0 + " and " + kA1 + " (starting at its byte 0)",
                kExpected, "it lacks the partial result of rank 2"}));
}

/// The report names all writers of the parts, so that the user can identify the wrong writer.
TEST(CheckerSums, NamesTheWritersOfTheParts) {
  EXPECT_THAT(
      verdict(edited(scatterByPut({}),
                     {{"  sum %c, %parts\n", "  %next = select %parts[(rank + 1) mod 3]\n"
                                             "  set %next, %own\n  sum %c, %parts\n"}})),
      HasSubstr("\n  rank 0, main, run 1: sum of \"sum %c, %parts\" at t.braid:32:3\n"
                "    writes %C of rank 0, bytes [0 .. 48)\n"
                "  rank 0, main, run 1: matmul of \"matmul %own, %own_block, %B\" at t.braid:20:3\n"
                "    writes %parts of rank 0, bytes [0 .. 48) from %A of rank 0, bytes [0 .. 24)\n"
                "  rank 0, main, run 1: copy of \"set %next, %own\" at t.braid:31:3\n"
                "    writes %parts of rank 0, bytes [48 .. 96) from %parts of rank 0, bytes [0 .. "
                "48)\n"
                "  rank 2, main, run 1: copy of \"%s = p2p send %theirs to (rank + %i) mod 3 via "
                "%h\" (trip 1) at t.braid:25:5\n"
                "    writes %parts of rank 0, bytes [96 .. 144) from %sent of rank 2, bytes [0 .. "
                "48)\n"));
}

TEST(CheckerSums, OneIsThereTwice) {
  EXPECT_THAT(verdict(edited(scatterByPut({}),
                             {{"  sum %c, %parts\n", "  %next = select %parts[(rank + 1) mod 3]\n"
                                                     "  set %next, %own\n  sum %c, %parts\n"}})),
              wrongSum({"it holds the sum of " + kA0 + ", " + kA0 + " and " + kA2 +
                            " (starting at its byte 0)",
                        kExpected, "it lacks the partial result of rank 1",
                        "it has the partial result of rank 0 twice"}));
}

/// If there are many addends, the report lists only the first ones.
TEST(CheckerSums, ManyAddends) {
  const std::string text = verdict(
      edited(scatterByPut({7}),
             {{"  sum %c, %parts\n", "  %some = slice %parts[0 .. 6]\n  sum %c, %some\n"}}));
  EXPECT_THAT(text, HasSubstr("  it holds the sum of " + kA0 + ", " + kA1 + ", " + kA2 +
                              ", the matmul of %A of rank 3 in run 1 and 2 more (starting"));
  EXPECT_THAT(text, HasSubstr("  it lacks the partial result of rank 6\n"));
}

/// The GEMM computes rows that belong to another rank.
TEST(CheckerSums, OtherRows) {
  EXPECT_THAT(verdict(edited(scatterByPut({2}), {{"%own_block = select %A[rank]",
                                                  "%own_block = select %A[1 - rank]"}})),
              wrongSum({"it holds the sum of " + kA0 + " and " + kA1 + " (starting at its byte 48)",
                        "expected the sum of " + kA0 + " and " + kA1 + " (starting at its byte 0)",
                        "it lacks the partial result of rank 0",
                        "it has other rows of the partial result of rank 0"}));
}

/// All partial results are stored in one slot, so the other slots are never written.
TEST(CheckerSums, WrongSlot) {
  const std::string text = edited(scatterByPut({}), {{"%slot = select %parts[(rank - %i) mod 3]",
                                                      "%slot = select %parts[(rank - 1) mod 3]"}});
  EXPECT_THAT(verdict(text),
              HasSubstr("unsafe (result): a command reads data that no command has written\n"));
  const std::string filled =
      edited(text, {{"  %own_block =", "  for %j in 0 .. 3 {\n    %each = select %parts[%j]\n"
                                       "    %mine = select %A[rank]\n"
                                       "    matmul %each, %mine, %B\n  }\n  %own_block ="}});
  EXPECT_THAT(verdict(filled), HasSubstr("  it lacks the partial result of rank"));
  EXPECT_THAT(verdict(filled), HasSubstr("  it has the partial result of rank 0 twice\n"));
}

TEST(CheckerSums, OneHasNotArrivedInTheFirstRun) {
  std::string text = edited(scatterByPut({}), {{"  %c = select %C[0]\n", ""},
                                               {"  sum %c, %parts\n", ""},
                                               {"  for %i in 1 .. 3 {\n    %slot",
                                                "  %c = select %C[0]\n  sum %c, %parts\n"
                                                "  for %i in 1 .. 3 {\n    %slot"}});
  EXPECT_THAT(verdict(text),
              HasSubstr("unsafe (result): a command reads data that no command has written\n"));
}

TEST(CheckerSums, RoundedToAnotherTypeOnTheWay) {
  const Options wide{.ranks = 2, .dtype = "bf16", .partial = "f32"};
  EXPECT_THAT(verdict(edited(scatterByPut(wide), {{" partial f32", ""}})),
              HasSubstr("  it holds the sum of the f32 matmul of %A of rank 0 in run 1 and the f32 "
                        "matmul of %A of rank 1 in run 1 (starting at its byte 0)\n"
                        "  expected the sum of the matmul of %A of rank 0 in run 1 and the matmul "
                        "of %A of rank 1 in run 1 (starting at its byte 0)\n"
                        "  it lacks the partial result of rank 0\n"));
  EXPECT_THAT(verdict(edited(scatterByPut({.ranks = 2, .dtype = "bf16", .partial = "bf16"}),
                             {{"%A, %B :", "%A, %B partial f32 :"}})),
              HasSubstr("it lacks the partial result of rank 1\n"));
}

/// The sum of two partial results is rounded to the result's type before the next addition.
TEST(CheckerSums, SumRoundedToAnotherTypeOnTheWay) {
  const Options wide{.ranks = 4, .dtype = "bf16", .partial = "f32"};
  const std::string sum = "  sum %c, %parts\n";
  const std::string pairs = "  %pairs = allocate device bf16[2, 3, 4]\n"
                            "  for %j in 0 .. 2 {\n"
                            "    %pair = slice %parts[2 * %j .. 2 * %j + 2]\n"
                            "    %half = select %pairs[%j]\n"
                            "    sum %half, %pair\n  }\n  sum %c, %pairs\n";
  EXPECT_THAT(verdict(edited(scatterByPut(wide), {{sum, pairs}})),
              HasSubstr("  it holds the sum of (the sum of the f32 matmul of %A of rank 0 in run 1 "
                        "and the f32 matmul of %A of rank 1 in run 1) and (the sum of"));
  expectProved(
      edited(scatterByPut({.ranks = 4, .dtype = "bf16", .partial = "bf16"}), {{sum, pairs}}));
}

//===- The bias -------------------------------------------------------------------------------===//

const Options kBias{.ranks = 2, .hasBias = true};

TEST(CheckerSums, BiasIsMissing) {
  EXPECT_THAT(verdict(edited(scatterByPut(kBias), {{"%parts, %bias\n}", "%parts\n}"}})),
              HasSubstr("  it holds the sum of " + kA0 + " and " + kA1 +
                        " (starting at its byte 0)\n"
                        "  expected the sum of " +
                        kA0 + ", " + kA1 +
                        " and %bias in run 1 (starting at its byte 0)\n"
                        "  it lacks the bias %bias in run 1\n"));
}

TEST(CheckerSums, BiasIsThereTwice) {
  EXPECT_THAT(verdict(edited(scatterByPut(kBias), {{"  sum %c, %parts, %bias\n",
                                                    "  %once = allocate device f32[1, 3, 4]\n"
                                                    "  %it = select %once[0]\n"
                                                    "  sum %it, %parts, %bias\n"
                                                    "  sum %c, %once, %bias\n"}})),
              HasSubstr("  it has the bias %bias in run 1 twice\n"));
}

/// The bias is incorrectly rounded together with the partial result.
TEST(CheckerSums, BiasOfOneRanksGemm) {
  std::string text =
      edited(scatterByPut(kBias),
             {{"linear %own, %own_block, %B\n", "linear %own, %own_block, %B, %bias\n"},
              {"%parts, %bias\n}", "%parts\n}"}});
  EXPECT_THAT(verdict(text), HasSubstr("  it lacks the partial result of rank 0\n"
                                       "  it lacks the bias %bias in run 1\n"
                                       "  it has the biased matmul of %A of rank 0 in run 1\n"));
}

/// A single rank adds the bias before any rounding, unless partial results are rounded.
TEST(CheckerSums, OneRankNeedsNoSum) {
  const std::string gemm = "  linear %own, %own_block, %B\n";
  auto direct = [&](const Options &options) {
    return edited(
        scatterByPut(options),
        {{gemm, ""}, {"  sum %c, %parts, %bias\n", "  linear %c, %own_block, %B, %bias\n"}});
  };
  expectProved(direct({1, "bf16", "f32", true}));
  expectProved(direct({1, "f64", "f64", true}));
  expectProved(direct({1, "bf16", "bf16", true}));
  EXPECT_THAT(verdict(scatterByPut({1, "bf16", "bf16", true})),
              HasSubstr("expected the biased matmul of %A"));
}

//===- The order of additions -----------------------------------------------------------------===//

TEST(CheckerSums, OrderIsSaidIfAskedFor) {
  const std::string order = "partial results are added in rank order, in a single sum\n";
  EXPECT_THAT(verdict(scatterByPut({}), kOrdered), HasSubstr("  order      " + order));
  EXPECT_THAT(verdict(scatterByPut({})), Not(HasSubstr("  order  ")));
}

TEST(CheckerSums, OrderIsThatOfTheParts) {
  const std::string text = edited(
      scatterByPut({}), {{"%slot = select %parts[(rank - %i) mod 3]", "%slot = select %parts[%i]"},
                         {"%own = select %parts[rank]", "%own = select %parts[0]"}});
  expectProved(text);
  EXPECT_EQ(verdict(text, kOrdered),
            "unsafe (result): %C is not summed in rank order, starting at byte 0\n"
            "  rank 0, main, run 1: sum of \"sum %c, %parts\" at t.braid:30:3\n"
            "    writes %C of rank 0, bytes [0 .. 48)\n"
            "  rank 0, main, run 1: matmul of \"matmul %own, %own_block, %B\" at t.braid:20:3\n"
            "    writes %parts of rank 0, bytes [0 .. 48) from %A of rank 0, bytes [0 .. 24)\n"
            "  rank 2, main, run 1: copy of \"%s = p2p send %theirs to (rank + %i) mod 3 via %h\" "
            "(trip 1) at t.braid:25:5\n"
            "    writes %parts of rank 0, bytes [48 .. 96) from %sent of rank 2, bytes [0 .. 48)\n"
            "  rank 1, main, run 1: copy of \"%s = p2p send %theirs to (rank + %i) mod 3 via %h\" "
            "(trip 2) at t.braid:25:5\n"
            "    writes %parts of rank 0, bytes [96 .. 144) from %sent of rank 1, bytes [0 .. 48)\n"
            "  rank 0, main, run 1: the caller reads the outputs\n"
            "  it is rank 0 + rank 2 + rank 1\n"
            "  expected rank 0 + rank 1 + rank 2\n");
}

TEST(CheckerSums, OrderOfSumsOfSums) {
  EXPECT_THAT(verdict(scatterAroundRing({4}), kOrdered),
              HasSubstr("  it is ((rank 2 + rank 3) + rank 0) + rank 1\n"
                        "  expected rank 0 + rank 1 + rank 2 + rank 3\n"));
  EXPECT_THAT(verdict(scatterAroundRing({.ranks = 2, .hasBias = true}), kOrdered),
              HasSubstr("  it is rank 1 + rank 0 + %bias in run 1\n"
                        "  expected rank 0 + rank 1 + %bias in run 1\n"));
}

//===- Order of sums and transfers ------------------------------------------------------------===//

/// The ready signal for the next run is on a stream that is not ordered after the sum.
TEST(CheckerSums, OverwrittenWhileItIsAdded) {
  const std::string text = scatterInChunks({2});
  EXPECT_THAT(verdict(edited(text, {{"  set_current_stream %main\n  for %j in 0 .. 3 {\n",
                                     "  set_current_stream %main\n  for %j in 0 .. 2 {\n"}})),
              HasSubstr("unsafe (race): "));
  const std::string unknown =
      edited(text, {{"  for %j in 0 .. 3 {\n    set_current_stream stream(%j)\n",
                     "  for %j in 1 .. 3 {\n    set_current_stream stream(%j)\n"}});
  EXPECT_THAT(verdict(unknown),
              AllOf(HasSubstr("unsafe (race): a read and a write are not ordered\n"),
                    HasSubstr("sum of \"sum %c_rows, %parts[%k .. 1 + 2 * %k]\" (trip 0)"),
                    HasSubstr("copy of \"%s = p2p send %part_rows")));
}

/// Data that a peer's GEMM stores on this rank is ordered only by the wait for the receive.
TEST(CheckerSums, WhatAPeerStoresIsNotWaitedFor) {
  EXPECT_THAT(
      verdict(edited(scatterAtPeers({2}), {{"    set_current_stream %main\n    wait %r\n",
                                            "    set_current_stream stream(1)\n    wait %r\n"}})),
      AllOf(HasSubstr("unsafe (race): a "),
            HasSubstr("matmul of \"%s = p2p send matmul %block, %B : f32[3, 4] to "),
            HasSubstr("both touch %parts of rank")));
}

} // namespace
} // namespace braid
