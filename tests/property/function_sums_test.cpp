//===- tests/property/function_sums_test.cpp - functions of sums over devices -----------------===//
//
// Checks and runs fusions that apply functions to a sum, and compares every element of the results.
// Covers every element type, even and uneven rows, scattered and replicated results, and every
// schedule for reductions.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/property/thinning.h"
#include "tests/support/configured.h"
#include "tests/support/random_fusion.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

struct FunctionCase {
  int64_t ranks, rows; ///< rows of all ranks
  const char *dtype, *partial;
  bool isScattered;

  /// The outputs are the sum and the result of two functions applied to it, the second of which has
  /// two operands.
  std::string text() const {
    const std::string rowAxes = isScattered ? "DIDx{D}, ceil(M, D)" : "D, ceil(M, D)";
    return fmt::format("fusion @f(D = {0}, M = {1}) {{\n"
                       "  mesh [0 .. D)\n"
                       "  %X = input {2}[D, ceil(M, D), DIDx{{D}}, 3]\n"
                       "  %w = input {2}[2, DIDx{{D}}, 3]\n"
                       "  %b = input {2}[2]\n"
                       "  %R = input {2}[{4}, 2]\n"
                       "  %Y = linear %X, %w, %b partial {3} : {2}[{4}, 2]\n"
                       "  %S = gelu_tanh %Y : {2}[{4}, 2]\n"
                       "  %Z = add %R, %S : {2}[{4}, 2]\n"
                       "  output %Y, %Z\n}}\n",
                       ranks, rows, dtype, partial, rowAxes);
  }

  int64_t blockRows() const { return (rows + ranks - 1) / ranks; }
};

void checkAndRun(const FunctionCase &functions, const std::string &schedule) {
  RandomCase made;
  made.text = functions.text();
  made.compile.schedule = configured(schedule);
  made.run.iterations = 3;
  made.run.verify = true;
  EXPECT_EQ(checkCase(made).message(), "") << schedule;
  EXPECT_EQ(runCase(made).message(), "") << schedule;
}

void checkAndRunAll(const FunctionCase &functions, Thinning &thinning) {
  std::vector<std::string> schedules = {"pairwise", "pairwise;placement=shared;streams=6",
                                        "sequential", "bulk"};
  if (functions.isScattered)
    schedules.push_back("ring");
  else
    for (size_t i = 0; i < 4; ++i)
      schedules.push_back(schedules[i] + ";reduction=two-shot");
  for (const std::string &schedule : schedules)
    for (const char *protocol : {"get", "put"}) {
      const bool hasChunks = schedule.find("pairwise") == 0 || schedule == "ring";
      if (thinning.choosesNext())
        checkAndRun(functions, fmt::format("{};protocol={}", schedule, protocol));
      if (hasChunks && functions.ranks > 1 && functions.blockRows() > 1 && thinning.choosesNext())
        checkAndRun(functions, fmt::format("{};protocol={};chunks=2", schedule, protocol));
    }
}

TEST(FunctionSums, AreExactInEveryType) {
  constexpr std::pair<const char *, const char *> kTypes[] = {{"bf16", "bf16"}, {"bf16", "f32"},
                                                              {"f16", "f16"},   {"f16", "f32"},
                                                              {"f32", "f32"},   {"f64", "f64"}};
  Thinning thinning;
  for (auto [dtype, partial] : kTypes)
    for (bool isScattered : {true, false})
      checkAndRunAll({3, 7, dtype, partial, isScattered}, thinning);
}

TEST(FunctionSums, AreExactOnAnyNumberOfRowsAndRanks) {
  Thinning thinning;
  for (int64_t ranks : {1, 2, 4, 8})
    for (int64_t rows : {1, 8, 13})
      for (bool isScattered : {true, false})
        checkAndRunAll({ranks, rows, "bf16", "bf16", isScattered}, thinning);
}

} // namespace
} // namespace braid::test
