//===- tests/api/default_schedules_test.cpp - default schedules, chosen without measuring -----===//

#include "api/autotune/candidates.h"
#include "api/autotune/kept_choices.h"
#include "api/compile/compile.h"
#include "lowering/stages/default_schedules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

enum Kind { kGather, kReturning, kReturningTwo, kScatter, kAllReduce };

/// Returns a fusion in the form that braid.torch writes: B is [size, size] on each rank.
std::string fusionOf(Kind kind, int64_t ranks, int64_t rows, int64_t size) {
  const std::string block =
      rows % ranks ? fmt::format("ceil({}, {})", rows, ranks) : std::to_string(rows / ranks);
  const bool isGather = kind <= kReturningTwo;
  const std::string outer = kind == kScatter ? "DIDx{D}" : isGather ? "Stream{D}" : "D";
  std::string text = fmt::format("fusion @f(D = {}) {{\n  mesh [0 .. D)\n", ranks);
  text += isGather ? fmt::format("  %A = input bf16[DIDx{{D}}, {0}, {1}]\n"
                                 "  %W = input bf16[{1}, {1}]\n",
                                 block, size)
                   : fmt::format("  %A = input bf16[D, {0}, DIDx{{D}}, {1}]\n"
                                 "  %W = input bf16[DIDx{{D}}, {1}, {1}]\n",
                                 block, size);
  text += fmt::format("  %Y = matmul %A, %W : bf16[{}, {}, {}]\n", outer, block, size);
  if (kind != kReturning && kind != kReturningTwo)
    return text + "  output %Y\n}\n";
  const std::string type = fmt::format("bf16[Stream{{D}}, {}, {}]\n", block, size);
  text += "  %G = reshard %A : " + type;
  if (kind == kReturning)
    return text + "  output %Y, %G\n}\n";
  return text + "  %Z = matmul %A, %W : " + type + "  output %Y, %Z, %G\n}\n";
}

struct Case {
  Kind kind;
  int64_t ranks, rows, size;
  std::vector<std::string> schedules;
};

const std::string kBulk = "bulk;copies=kernel", kPushed = "bulk;protocol=put;copies=kernel",
                  kPushedPairs = "pairwise;protocol=put;copies=kernel",
                  kLarge = "pairwise;placement=shared;protocol=put;copies=engine;signals=memory",
                  kLargeFirst = "pairwise;stepwise=first;placement=shared;protocol=put;"
                                "copies=engine;signals=memory",
                  kLargeScatter = "pairwise;placement=shared;copies=engine;signals=memory",
                  kAtPeers = "ring;sums=gemm;protocol=put;partials=peer;streams=1;copies=kernel",
                  kRing = "ring;sums=gemm;chunks=2;copies=engine;signals=memory",
                  kTwoShots = "bulk;reduction=two-shot;second-shot=put;copies=kernel",
                  kLargeShots = "pairwise;placement=shared;reduction=two-shot;protocol=put;"
                                "chunks=2;streams=6;copies=engine;signals=memory";

/// Checks the first default schedules for each case. At least the best one must compile.
TEST(DefaultSchedules, FitTheSizes) {
  const Case cases[] = {
      {kGather, 2, 64, 8192, {kPushed}},
      {kGather, 4, 2048, 512, {kPushed}},
      {kGather, 4, 2047, 8192, {kPushed}}, // 2047 rows without padding
      {kGather, 4, 2048, 2048, {kPushedPairs}},
      {kGather, 4, 2049, 8192, {kLarge}},
      {kReturning, 4, 1024, 8192, {kBulk}},
      {kReturning, 4, 1022, 8192, {kBulk}},
      {kReturning, 4, 2048, 2048, {kPushedPairs}},
      {kReturningTwo, 4, 2048, 2048, {kBulk, kPushedPairs}},
      {kReturning, 4, 16384, 8192, {kLarge}},
      {kReturningTwo, 4, 2048, 2880, {kLarge}},
      {kReturningTwo, 4, 2048, 4096, {kLargeFirst, kLarge}},
      {kScatter, 2, 1022, 8192, {kBulk}},
      {kScatter, 4, 2048, 1024, {kBulk}},
      {kScatter, 4, 2048, 2048, {kLargeScatter}},
      {kScatter, 2, 4096, 2048, {kAtPeers, kLargeScatter}},
      {kScatter, 2, 4096, 5120, {kLargeScatter}},
      {kScatter, 2, 8192, 4096, {kRing, kLargeScatter}},
      {kScatter, 2, 16384, 8192, {kRing, kLargeScatter}},
      {kAllReduce, 4, 16, 8192, {kBulk}},
      {kAllReduce, 2, 64, 8192, {kBulk}},
      {kAllReduce, 4, 64, 8192, {kTwoShots, kBulk}},
      {kAllReduce, 4, 4096, 2048, {kBulk}},
      {kAllReduce, 2, 4096, 8192, {kLargeShots}},
  };
  for (const Case &each : cases) {
    const std::string text = fusionOf(each.kind, each.ranks, each.rows, each.size);
    std::unique_ptr<Source> source = parseSource("t.braid", text);
    Result<Compiled> compiled = compile(*source, {});
    ASSERT_TRUE(compiled) << source->diags.str();
    const std::vector<FusionStage> stages = stagesOf(*compiled->fusion, source->diags);
    ASSERT_EQ(stages.size(), 1u);
    std::vector<std::string> found;
    for (const Configuration &schedule : defaultSchedules(*compiled->fusion, stages[0]))
      found.push_back(schedule.str());
    std::vector<std::string> expected;
    for (const std::string &schedule : each.schedules)
      expected.push_back(Configuration::parse(schedule)->str());
    EXPECT_EQ(found, expected) << text;
    std::unique_ptr<Source> again = parseSource("t.braid", text);
    Result<Compiled> lowered =
        compile(*again, {.schedule = *Configurations::parse(each.schedules.front())});
    ASSERT_TRUE(lowered) << again->diags.str();
    const bool isCopied = str(*lowered->program).find("set %G") != std::string::npos;
    EXPECT_FALSE(each.kind == kReturning && each.schedules.front() == kBulk && isCopied)
        << "it arrives in the output";
    size_t alike = 0; // candidates that the tuner takes for the default
    const RunModes modes{.transferModes = transferModesOf([](TransferMode) { return true; })};
    for (const Candidate &candidate : candidatesFor({}, stages[0]))
      for (const Candidate &judged : inAllModes(candidate, modes))
        alike += areAlike(judged, *Configuration::parse(each.schedules.front()));
    EXPECT_EQ(alike, 1u) << each.schedules.front();
  }
}

TEST(DefaultSchedules, AreForStagesWithTransfers) {
  std::unique_ptr<Source> source = parseSource("t.braid", fusionOf(kGather, 1, 2048, 512));
  Result<Compiled> compiled = compile(*source, {});
  ASSERT_TRUE(compiled) << source->diags.str();
  for (const FusionStage &stage : stagesOf(*compiled->fusion, source->diags))
    EXPECT_TRUE(defaultSchedules(*compiled->fusion, stage).empty());
}

TEST(KeptChoices, AreFoundByTheNearestSizes) {
  MeasurementCache cache("", "a machine", nullptr);
  auto keep = [&](int64_t rows, const std::string &schedule) {
    const KeptChoice choice{0.5, *Configurations::parse(schedule)};
    cache.set(choiceKey(fusionOf(kGather, 4, rows, 512), "question"), choice.encode());
  };
  keep(1024, "ring");
  keep(8192, "bulk");
  auto nearest = [&](const std::string &fusion, const std::string &question) {
    const std::optional<KeptChoice> found = nearestChoice(cache, choiceKey(fusion, question));
    return found ? found->schedule.str() : "";
  };
  keep(1600, "batched");
  EXPECT_EQ(nearest(fusionOf(kGather, 4, 1200, 512), "question"), "ring");
  EXPECT_EQ(nearest(fusionOf(kGather, 4, 1500, 512), "question"), "batched");
  EXPECT_EQ(nearest(fusionOf(kGather, 4, 4100, 512), "question"), "bulk");
  EXPECT_EQ(nearest(fusionOf(kGather, 4, 4096, 512), "question"), "") << "half the rows";
  EXPECT_EQ(nearest(fusionOf(kGather, 4, 3200, 512), "question"), "") << "twice the rows";
  EXPECT_EQ(nearest(fusionOf(kGather, 4, 1200, 512), "another question"), "");
  EXPECT_EQ(nearest(fusionOf(kScatter, 4, 1200, 512), "question"), "") << "another family";
  const std::string known = choiceKey(fusionOf(kGather, 4, 1024, 512), "question");
  EXPECT_EQ(nearestChoice(cache, known)->seconds, 0.5);
  EXPECT_NE(choiceKey(fusionOf(kGather, 4, 1028, 512), "question"), known);
}

} // namespace
} // namespace braid
