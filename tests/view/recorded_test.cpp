#include "api/view/pages.h"
#include "tests/runtime/fake_job.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using test::FakeJob;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(RecordedPage, BeginsWithTheRankThatFailedFirst) {
  FakeJob job(4);
  for (int64_t rank = 0; rank < 4; ++rank)
    job.issue(rank, 1);
  job.enter(1, 1, job.find(1, CommandKind::Await, "p2p recv", 2), true, 400);
  job.memory.abort({Status(StatusCode::PeerFailed, "rank 3 was killed by signal 9"), 3});
  const Page page = recordedPage(recordsOf(job.memory, job.plans, "job-7"));
  ASSERT_EQ(page.marks.size(), 4u);
  EXPECT_THAT(page.findings.front(), HasSubstr("of rank 3"));
  EXPECT_THAT(page.marks[0].text, StartsWith("Rank 3"));
  EXPECT_THAT(page.marks[2].text, StartsWith("Rank 1 waits for rank 3 in \"%r = p2p recv %block"));
  EXPECT_THAT(page.text[page.marks[2].line - 1], HasSubstr("p2p recv %block"));
}

} // namespace
} // namespace braid::view
