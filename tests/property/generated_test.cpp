//===- tests/property/generated_test.cpp - every lowered program is proved safe ---------------===//
//
// All programs, including their results, are checked with one hardware queue per rank.
// BRAID_CASES=n draws n fusions instead of 2,000.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/support/check_text.h"
#include "tests/support/configured.h"
#include "tests/support/examples.h"
#include "tests/support/number_from.h"
#include "tests/support/option_matrix.h"
#include "tests/support/random_fusion.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace braid::test {
namespace {

TEST(Generated, RandomFusions) {
  const uint64_t cases = numberFrom("BRAID_CASES", 2000);
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Status status = checkCase(randomCase(seed));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Generated, RandomReductions) {
  const uint64_t cases = numberFrom("BRAID_CASES", 1000);
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Status status = checkCase(randomCase(seed, {.sums = true}));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Generated, RandomFunctions) {
  const uint64_t cases = numberFrom("BRAID_CASES", 1000);
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Status status = checkCase(randomCase(seed, {.sums = seed % 3 == 0, .functions = true}));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Generated, RandomHosts) {
  const uint64_t cases = numberFrom("BRAID_CASES", 1000);
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Status status = checkCase(
        randomCase(seed, {.sums = seed % 2 == 0, .functions = seed % 3 == 0, .hosts = true}));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Generated, RandomWholeResults) {
  const uint64_t cases = numberFrom("BRAID_CASES", 1000);
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Status status = checkCase(randomCase(seed, {.whole = true}));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Generated, EveryPairOfOptions) {
  for (const Combination &combination : pairwiseCombinations()) {
    Status status = checkCombination(combination);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

Status checkOn(const std::string &text, CompileOptions options, const std::string &schedule) {
  options.schedule = configured(schedule);
  return checkText(text, options)
      .annotated(fmt::format("--ranks {} --schedule '{}'", *options.ranks, schedule));
}

/// Each step has 13 rows, a prime number, so multiple chunks have unequal sizes.
CompileOptions unevenOptions(int64_t ranks) {
  return {.ranks = ranks, .parameters = {{"M", 13 * ranks}, {"K", 2}, {"N", 3}}};
}

TEST(Generated, EveryTailSplit) {
  const std::string text = readExample("ag_matmul.braid");
  int count = 0;
  for (int64_t ranks : {2, 3, 4, 5, 6, 7, 8})
    for (const char *schedule : {"pairwise", "ring", "batched"})
      for (const char *protocol : {"get", "put"})
        for (int64_t streams : {1, 2, 3, 4})
          for (int64_t chunks : {1, 2, 3})
            for (int64_t split : {1, 2, 4}) {
              Status status =
                  checkOn(text, unevenOptions(ranks),
                          fmt::format("{};protocol={};streams={};chunks={};tail-split={}", schedule,
                                      protocol, streams, chunks, split));
              ASSERT_TRUE(status.isOk()) << status.message();
              ++count;
            }
  std::printf("%d programs\n", count);
}

/// Every number of ranks up to 8, and two larger numbers.
constexpr int64_t kFewRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};

/// Checks every schedule that supports reductions.
TEST(Generated, EveryReduction) {
  const std::pair<const char *, std::vector<const char *>> kCases[] = {
      {"matmul_reduce_scatter",
       {"pairwise", "pairwise;placement=shared", "pairwise;partials=peer", "ring",
        "ring;partials=peer"}},
      {"matmul_all_reduce",
       {"pairwise", "pairwise;reduction=two-shot", "pairwise;reduction=two-shot;partials=peer",
        "pairwise;placement=shared;reduction=two-shot", "ring;reduction=two-shot",
        "pairwise;reduction=two-shot;second-shot=put", "ring;reduction=two-shot;second-shot=put",
        "ring;reduction=two-shot;partials=peer"}}};
  int count = 0;
  for (const auto &[name, schedules] : kCases)
    for (int64_t ranks : kFewRanks)
      for (const char *schedule : schedules)
        for (const char *protocol : {"get", "put"})
          for (int64_t streams : {1, 2, 3, 4, 6})
            for (const char *cut : {"", ";chunks=3", ";chunks=2;tail-split=2"}) {
              const bool isGet = std::string(protocol) == "get";
              const char *other = isGet ? "peer" : "second-shot"; // not supported by the protocol
              if (ranks > 1 && std::string(schedule).find(other) != std::string::npos)
                continue;
              Status status = checkOn(
                  readExample(name + std::string(".braid")),
                  {.ranks = ranks, .parameters = {{"M", 4 * ranks}, {"K", 2 * ranks}, {"N", 3}}},
                  fmt::format("{};protocol={};streams={}{}", schedule, protocol, streams,
                              ranks > 1 ? cut : ""));
              ASSERT_TRUE(status.isOk()) << status.message();
              ++count;
            }
  std::printf("%d programs\n", count);
}

/// The first shot is pulled, and the second is pushed. Some ranks may have fewer rows than others,
/// or none.
TEST(Generated, EverySecondShotThatIsPushed) {
  const std::string text = readExample("matmul_all_reduce.braid");
  for (int64_t ranks = 2; ranks <= 16; ++ranks)
    for (const char *schedule : {"bulk", "sequential"})
      for (int64_t rows : {ranks - 1, ranks, 4 * ranks + 1}) {
        Status status =
            checkOn(text, {.ranks = ranks, .parameters = {{"M", rows}, {"K", 2 * ranks}, {"N", 3}}},
                    fmt::format("{};reduction=two-shot;second-shot=put", schedule));
        ASSERT_TRUE(status.isOk()) << status.message();
      }
}

/// Checks two stages with every pair of schedules.
TEST(Generated, EveryPairOfSchedules) {
  const std::string text = "fusion @f(D = 4) {\n  mesh [0 .. D)\n"
                           "  %A = input f32[DIDx{D}, 6, 5]\n  %X = input f32[DIDx{D}, 6, 5]\n"
                           "  %B = input f32[5, 7]\n"
                           "  %C = matmul %A, %B : f32[Stream{D}, 6, 7]\n"
                           "  %Y = matmul %X, %B : f32[Stream{D}, 6, 7]\n"
                           "  output %C\n  output %Y\n}\n";
  int count = 0;
  for (const Preset &first : pairPresets())
    for (const Preset &second : pairPresets())
      for (int64_t ranks : {2, 3, 4})
        for (const char *knobs :
             {"", ";protocol=put;chunks=2", ";protocol=put;streams=2", ";streams=1;tail-split=2"}) {
          Status status =
              checkOn(text, {.ranks = ranks},
                      fmt::format("C={},Y={}{}", first.name.str(), second.name.str(), knobs));
          ASSERT_TRUE(status.isOk()) << status.message();
          ++count;
        }
  std::printf("%d programs\n", count);
}

/// A small version of an example, with four rows per step, so that there can be up to four chunks.
struct Example {
  std::string name;
  int64_t steps; ///< 0: the number of ranks
  bool hasSplitColumns;
  bool isLikeAnother; ///< true if another example depends on the rank count in the same way
};

class Examples : public testing::TestWithParam<Example> {
protected:
  static CompileOptions optionsFor(int64_t ranks) {
    const Example &example = GetParam();
    CompileOptions options;
    options.ranks = ranks;
    int64_t steps = example.steps == 0 ? ranks : example.steps;
    options.parameters = {
        {"M", 4 * steps}, {"K", 2}, {"N", example.hasSplitColumns ? 3 * ranks : 3}};
    return options;
  }

  /// Checks every schedule, protocol, number of streams and chunking, and counts them.
  static void checkAll(const std::string &text, const CompileOptions &options, int &count) {
    for (const char *schedule : {"pairwise", "pairwise;placement=shared", "ring", "sequential",
                                 "batched", "bulk", "coalesced"})
      for (const char *protocol : {"get", "put"})
        for (int64_t streams : {1, 2, 3, 4})
          for (int64_t chunks : {1, 2, 3, 4}) {
            Status status = checkOn(text, options,
                                    fmt::format("{};protocol={};streams={};chunks={}", schedule,
                                                protocol, streams, chunks));
            ASSERT_TRUE(status.isOk()) << status.message();
            ++count;
          }
  }
};

TEST_P(Examples, OnOneToSixteenRanks) {
  const std::string text = readExample(GetParam().name + std::string(".braid"));
  int count = 0;
  for (int64_t ranks = 1; ranks <= 16; ++ranks) {
    if (GetParam().isLikeAnother && !llvm::is_contained(kFewRanks, ranks))
      continue;
    checkAll(text, optionsFor(ranks), count);
    if (HasFatalFailure())
      return;
  }
  std::printf("%d programs from %s\n", count, GetParam().name.c_str());
}

INSTANTIATE_TEST_SUITE_P(, Examples,
                         testing::Values(Example{"ag_matmul", 0, false, false},
                                         Example{"ag_linear", 0, false, true},
                                         Example{"ag_matmul_column", 0, true, true},
                                         Example{"matmul_local", 4, false, false}),
                         [](const auto &test) { return test.param.name; });

} // namespace
} // namespace braid::test
