//===- tests/api/rank_summary_test.cpp - the summary that a rank prints after its runs --------===//

#include "api/ranks/rank_summary.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

/// A Plan with two commands on two streams, and three outputs.
Plan smallPlan() {
  Plan plan;
  plan.outputs.resize(3);
  plan.commands.resize(2);
  plan.streams = {"main", "stream(0)"};
  return plan;
}

RankSummary summary() {
  RankSummary summary{0.25, {5, uint64_t(-1), 0}, {}};
  summary.spans.push_back({{nullptr, 1, 3}, 1, 100, 250});
  summary.spans.push_back({{nullptr, 0, 4}, 0, -5, 1});
  return summary;
}

TEST(RankSummary, DecodesWhatItEncodes) {
  Plan plan = smallPlan();
  Result<RankSummary> decoded = RankSummary::decode(summary().encode(), plan);
  ASSERT_TRUE(decoded.isOk()) << decoded.status().message();
  EXPECT_EQ(decoded->runSeconds, 0.25);
  ASSERT_EQ(decoded->spans.size(), 2u);
  EXPECT_EQ(decoded->spans[0].tag.plan, &plan);
  EXPECT_EQ(decoded->spans[0].tag.command, 1u);
  EXPECT_EQ(decoded->spans[0].tag.run, 3u);
  EXPECT_EQ(decoded->spans[0].stream, 1u);
  EXPECT_EQ(decoded->spans[0].endNs, 250);
  EXPECT_EQ(decoded->spans[1].beginNs, -5);
  EXPECT_EQ(decoded->digests, summary().digests);
}

TEST(RankSummary, RefusesWhatIsCutOffOrTooLongOrOfAnotherPlan) {
  Plan plan = smallPlan();
  const std::string bytes = summary().encode();
  const size_t span = 4 * sizeof(uint64_t);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(RankSummary::decode(bytes.substr(0, size), plan).isOk(),
              size == bytes.size() - span || size == bytes.size() - 2 * span) // without spans
        << size;
  EXPECT_FALSE(RankSummary::decode(bytes + std::string(8, '\0'), plan).isOk());
  RankSummary other = summary();
  other.spans[0].tag.command = 2;
  EXPECT_FALSE(RankSummary::decode(other.encode(), plan).isOk());
  other = summary();
  other.spans[0].stream = 2;
  EXPECT_FALSE(RankSummary::decode(other.encode(), plan).isOk());
}

} // namespace
} // namespace braid
