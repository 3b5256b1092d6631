#include "api/view/pages.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using ::testing::ElementsAre;

TEST(RecordedPage, ShowsTheFirstCauseAboveTheRecords) {
  const std::vector<std::string> records = {"flight records of 2 ranks of job 7",
                                            "first cause: exit code 5, caused by rank 1",
                                            "  rank 1 was killed by signal 9", "the rest"};
  const Page page = recordedPage(records);
  EXPECT_TRUE(page.isFailure);
  EXPECT_EQ(page.subtitle, records[0]);
  EXPECT_EQ(page.text, records);
  EXPECT_THAT(
      page.findings,
      ElementsAre("First cause: exit code 5, caused by rank 1: rank 1 was killed by signal 9"));
}

TEST(RecordedPage, ShowsRecordsThatWereCut) {
  EXPECT_TRUE(recordedPage({"flight records of 2 ranks"}).findings.empty());
  EXPECT_THAT(recordedPage({"", "first cause: x"}).findings, ElementsAre("First cause: x"));
  EXPECT_THAT(recordedPage({"", "first cause: x", ""}).findings, ElementsAre("First cause: x"));
}

} // namespace
} // namespace braid::view
