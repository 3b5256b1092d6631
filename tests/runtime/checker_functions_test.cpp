//===- tests/runtime/checker_functions_test.cpp - functions of correct values, rounded once ---===//

#include "tests/support/checked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;

/// Returns a fusion that combines two GEMMs, and a program for it that ends with `nodes`.
std::string withNodes(const std::string &nodes) {
  return R"(fusion @f(D = 1) {
  mesh [0 .. D)
  %A = input bf16[4, 5]
  %B = input bf16[5, 3]
  %E = input bf16[5, 3]
  %U = matmul %A, %B : bf16[4, 3]
  %V = matmul %A, %E : bf16[4, 3]
  %S = silu %U : bf16[4, 3]
  %G = multiply %S, %V : bf16[4, 3]
  output %G, %V
}
program @p implements @f mesh [0 .. 1) (%A: bf16[4, 5], %B: bf16[5, 3], %E: bf16[5, 3])
    -> (%G: bf16[4, 3], %V: bf16[4, 3]) {
  %u = allocate device f32[4, 3]
  %v = allocate device f32[4, 3]
  %s = allocate device f32[4, 3]
  %n = allocate device bf16[4, 3]
  matmul %u, %A, %B
  matmul %v, %A, %E
)" + nodes +
         "}\n";
}

std::string verdict(const std::string &nodes) { return test::verdict(withNodes(nodes)); }

constexpr const char *kProved =
    "every output is computed once, from the correct blocks of the same run";
constexpr const char *kWrong = "differs from its definition, starting at byte 0";

TEST(CheckerOfFunctions, AcceptsAnyWayToComputeTheSame) {
  for (const char *nodes :
       {"pointwise %V, %v pointwise %G, multiply(silu(%u), %v)",
        "pointwise %V, %v pointwise %s, silu(%u) pointwise %G, multiply(%v, %s)",
        "matmul %V, %A, %E pointwise %s, silu(%u) pointwise %u, multiply(%s, %v) pointwise %G, %u",
        "pointwise %V, %v for %i in 0 .. 4 { %g = select %G[%i] %a = select %u[%i] %b = select "
        "%v[%i] pointwise %g, multiply(silu(%a), %b) }"})
    EXPECT_THAT(verdict(nodes), HasSubstr(kProved)) << nodes;
}

TEST(CheckerOfFunctions, RejectsWhatIsRoundedBetween) {
  for (const char *nodes :
       {"pointwise %V, %v pointwise %n, %u pointwise %G, multiply(silu(%n), %v)",
        "pointwise %V, %v pointwise %n, silu(%u) pointwise %G, multiply(%n, %v)",
        "pointwise %V, %v pointwise %n, %u pointwise %s, %n pointwise %G, multiply(silu(%s), %v)",
        "pointwise %V, %v pointwise %n, silu(%u) pointwise %s, %n pointwise %G, multiply(%s, %v)",
        "pointwise %V, %v pointwise %G, multiply(silu(%u), %V)"})
    EXPECT_THAT(verdict(nodes), HasSubstr(kWrong)) << nodes;
}

TEST(CheckerOfFunctions, RejectsOtherFunctionsAndOperands) {
  for (const char *nodes : {"pointwise %V, %v pointwise %G, multiply(gelu(%u), %v)",
                            "pointwise %V, %v pointwise %G, multiply(%u, %v)",
                            "pointwise %V, %v pointwise %G, add(silu(%u), %v)",
                            "pointwise %V, %v pointwise %G, multiply(silu(%v), %u)",
                            "pointwise %V, %v pointwise %G, silu(multiply(%u, %v))",
                            "pointwise %V, %u pointwise %G, multiply(silu(%u), %v)"})
    EXPECT_THAT(verdict(nodes), HasSubstr(kWrong)) << nodes;
}

TEST(CheckerOfFunctions, SaysWhatIsThere) {
  EXPECT_THAT(
      verdict("pointwise %V, %v pointwise %G, multiply(gelu(%u), %v)"),
      testing::AllOf(
          HasSubstr("it holds the multiply of the f32 matmul of %A in run 1 and the gelu"),
          HasSubstr("expected the multiply of the f32 matmul of %A in run 1 and the silu")));
}

//===- Functions of sums ----------------------------------------------------------------------===//

/// Returns a program that ends with `nodes`, with the bf16 partial results of all ranks in %parts.
std::string withSum(const std::string &nodes) {
  return R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %X = input bf16[3, DIDx{D}, 2]
  %w = input bf16[4, DIDx{D}, 2]
  %b = input bf16[4]
  %Y = linear %X, %w, %b : bf16[3, 4]
  %S = silu %Y : bf16[3, 4]
  output %S, %Y
}
program @p implements @f mesh [0 .. 2) (%X: bf16[3, 1, 2], %w: bf16[4, 1, 2], %b: bf16[4])
    -> (%S: bf16[3, 4], %Y: bf16[3, 4]) {
  %parts = allocate symmetric bf16[2, 3, 4]
  %h = share_mem_handles get %parts
  %y = allocate device f32[3, 4]
  %n = allocate device bf16[3, 4]
  %own = select %parts[rank]
  linear %own, %X, %w
  %s = p2p send %own to 1 - rank via %h
  %other = select %parts[1 - rank]
  %r = p2p recv %other from 1 - rank via %h
  wait %r
)" + nodes +
         " wait %s }\n";
}

TEST(CheckerOfFunctions, KnowsSumsThatAreNotRounded) {
  for (const char *nodes : {"sum %y, %parts, %b pointwise %S, silu(%y) pointwise %Y, %y",
                            "sum %y, %parts, %b sum %Y, %parts, %b pointwise %S, silu(%y)",
                            "for %i in 0 .. 3 { %c1 = slice %y[%i .. %i + 1] "
                            "%s1 = slice %S[%i .. %i + 1] sum %c1, %parts[%i .. %i + 1], %b "
                            "pointwise %s1, silu(%c1) } pointwise %Y, %y"})
    EXPECT_THAT(test::verdict(withSum(nodes)), HasSubstr(kProved)) << nodes;
}

TEST(CheckerOfFunctions, RejectsSumsThatAreRoundedFirst) {
  for (const char *nodes :
       {"sum %Y, %parts, %b pointwise %S, silu(%Y)",
        "sum %Y, %parts, %b pointwise %y, %Y pointwise %S, silu(%y)",
        "sum %y, %parts, %b pointwise %n, %y pointwise %S, silu(%n) pointwise %Y, %y",
        "sum %y, %parts pointwise %S, silu(%y) sum %Y, %parts, %b",
        "sum %y, %parts, %b pointwise %S, %y pointwise %Y, %y",
        "%one = slice %parts[0 .. 1] sum %y, %one, %b pointwise %S, silu(%y) sum %Y, %parts, %b"})
    EXPECT_THAT(test::verdict(withSum(nodes)), HasSubstr(kWrong)) << nodes;
}

TEST(CheckerOfFunctions, SaysWhichSumIsRounded) {
  EXPECT_THAT(test::verdict(withSum("sum %Y, %parts, %b pointwise %S, silu(%Y)")),
              testing::AllOf(HasSubstr("it holds the silu of the sum of the matmul of %X"),
                             HasSubstr("expected the silu of the f32 sum of the matmul of %X")));
}

TEST(CheckerOfFunctions, RejectsRowsOfAnotherTensor) {
  EXPECT_THAT(verdict("pointwise %V, %v for %i in 0 .. 4 { %g = select %G[%i] %a = select %u[%i] "
                      "%b = select %v[3 - %i] pointwise %g, multiply(silu(%a), %b) }"),
              HasSubstr(kWrong));
}

} // namespace
} // namespace braid
