//===- tests/property/generated_test.cpp - everything that lowering makes is proved safe ------===//
//
// With one hardware queue a rank, and with the result. BRAID_CASES=n draws n fusions instead of
// 2,000.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/support/check_text.h"
#include "tests/support/option_matrix.h"
#include "tests/support/random_fusion.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace braid::test {
namespace {

std::string readExample(const std::string &name) {
  std::ifstream file("examples/" + name + ".braid");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "run from the repository's root";
  return text.str();
}

TEST(Generated, RandomFusions) {
  const char *text = std::getenv("BRAID_CASES");
  uint64_t cases = text ? std::strtoull(text, nullptr, 10) : 2000;
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    Status status = checkCase(randomCase(seed));
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Generated, EveryPairOfOptions) {
  for (const Combination &combination : pairwiseCombinations()) {
    Status status = checkCombination(combination);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
}

/// 13 rows a step, so that no number of chunks divides them.
TEST(Generated, EveryTaper) {
  const std::string text = readExample("ag_matmul");
  int count = 0;
  for (int64_t ranks : {2, 3, 4, 5, 6, 7, 8})
    for (Schedule schedule : {Schedule::Pairwise, Schedule::Hop, Schedule::Burst})
      for (Protocol protocol : {Protocol::Get, Protocol::Put})
        for (int64_t streams : {1, 2, 3, 4})
          for (int64_t perStep : {1, 2, 3})
            for (int64_t taper : {1, 2, 4}) {
              CompileOptions options{.ranks = ranks,
                                     .parameters = {{"M", 13 * ranks}, {"K", 2}, {"N", 3}},
                                     .schedule = schedule,
                                     .protocol = protocol,
                                     .streams = streams,
                                     .chunks = ranks * perStep,
                                     .taper = taper};
              Status status = checkText(text, options);
              ASSERT_TRUE(status.isOk())
                  << "--ranks " << ranks << " --schedule " << name(schedule).str() << " --protocol "
                  << name(protocol).str() << " --streams " << streams << " --chunks "
                  << *options.chunks << " --taper " << taper << "\n"
                  << status.message();
              ++count;
            }
  std::printf("%d programs\n", count);
}

TEST(Generated, EveryWave) {
  const std::string text = readExample("ag_matmul");
  int count = 0;
  for (int64_t ranks : {2, 4, 8, 12, 16})
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      for (int64_t streams : {1, 2, 3, 4})
        for (auto [perStep, taper] : {std::pair(1, 1), {1, 2}, {3, 1}, {3, 2}})
          for (int64_t waveRows : {1, 2, 5, 9, 12}) {
            CompileOptions options{.ranks = ranks,
                                   .parameters = {{"M", 13 * ranks}, {"K", 2}, {"N", 3}},
                                   .schedule = Schedule::Doubling,
                                   .protocol = protocol,
                                   .streams = streams,
                                   .chunks = ranks * perStep,
                                   .taper = taper,
                                   .waveRows = waveRows};
            Status status = checkText(text, options);
            ASSERT_TRUE(status.isOk())
                << "--ranks " << ranks << " --protocol " << name(protocol).str() << " --streams "
                << streams << " --chunks " << *options.chunks << " --taper " << taper
                << " --wave-rows " << waveRows << "\n"
                << status.message();
            ++count;
          }
  std::printf("%d programs\n", count);
}

/// An example made small: four rows a step, so that they can be cut in four.
struct Example {
  std::string name;
  int64_t steps; ///< 0: as many as ranks
  bool hasSplitColumns;
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

  /// Every schedule, protocol, number of streams and chunking; counts them.
  static void checkAll(const std::string &text, CompileOptions options, int64_t steps, int &count) {
    std::vector<std::pair<Schedule, Transfers>> ways = {{Schedule::Pairwise, Transfers::Shared}};
    for (Schedule schedule : allSchedules())
      ways.emplace_back(schedule, Transfers::Each);
    for (auto [schedule, transfers] : ways)
      for (Protocol protocol : {Protocol::Get, Protocol::Put})
        for (int64_t streams : {1, 2, 3, 4})
          for (int64_t perStep : {1, 2, 3, 4}) {
            options.schedule = schedule;
            options.transfers = transfers;
            options.protocol = protocol;
            options.streams = streams;
            options.chunks = steps * perStep;
            Status status = checkText(text, options);
            ASSERT_TRUE(status.isOk())
                << "--ranks " << *options.ranks << " --schedule " << name(schedule).str()
                << " --transfers " << name(transfers).str() << " --protocol "
                << name(protocol).str() << " --streams " << streams << " --chunks "
                << *options.chunks << "\n"
                << status.message();
            ++count;
          }
  }
};

TEST_P(Examples, OnOneToSixteenRanks) {
  const std::string text = readExample(GetParam().name);
  int count = 0;
  for (int64_t ranks = 1; ranks <= 16; ++ranks) {
    int64_t steps = GetParam().steps == 0 ? ranks : GetParam().steps;
    checkAll(text, optionsFor(ranks), steps, count);
    if (HasFatalFailure())
      return;
  }
  std::printf("%d programs from %s\n", count, GetParam().name.c_str());
}

INSTANTIATE_TEST_SUITE_P(, Examples,
                         testing::Values(Example{"ag_matmul", 0, false},
                                         Example{"ag_linear", 0, false},
                                         Example{"ag_matmul_column", 0, true},
                                         Example{"matmul_local", 4, false}),
                         [](const auto &test) { return test.param.name; });

} // namespace
} // namespace braid::test
