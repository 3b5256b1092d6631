#include "api/view/recorded.h"

#include "tests/runtime/fake_job.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using test::FakeJob;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Page pageOf(const FakeJob &job) { return recordedPage(recordsOf(job.memory, job.plans, "job-7")); }

/// Rank 1 waits for a peer on one stream; its caller's stream has waited longer, for that one.
FakeJob waitingJob() {
  FakeJob job(4);
  for (int64_t rank = 0; rank < 4; ++rank)
    job.issue(rank, 1);
  job.enter(1, 1, job.find(1, CommandKind::WaitEvent, "synchronize stream(0)"), true, 900);
  job.enter(1, 1, job.find(1, CommandKind::Await, "p2p recv", 2), true, 400);
  return job;
}

/// The sentence and what it points at are of one command, as those of `braid explain`.
TEST(RecordedPage, PointsAtTheCommandThatItNames) {
  const Page page = pageOf(waitingJob());
  ASSERT_EQ(page.marks.size(), 4u);
  EXPECT_THAT(page.marks[0].text, StartsWith("Rank 0 waits for its device, for 0.5 s"));
  EXPECT_FALSE(page.marks[0].command.isValid());
  EXPECT_THAT(page.marks[1].text, StartsWith("Rank 1 waits for rank 3 in \"%r = p2p recv %block"));
  const CommandRef at = page.marks[1].command;
  ASSERT_TRUE(at.isValid());
  EXPECT_EQ(page.ranks[1].commands[at.command].kind, Kind::Await);
  EXPECT_EQ(page.ranks[1].commands[at.command].trips, "2");
  EXPECT_THAT(page.text[page.marks[1].line - 1], HasSubstr("p2p recv %block"));
}

TEST(RecordedPage, ShowsWhoFailedFirstEvenWithoutACommand) {
  FakeJob job = waitingJob();
  job.memory.abort({Status(StatusCode::PeerFailed, "rank 3 was killed by signal 9"), 3});
  EXPECT_THAT(pageOf(job).marks[0].text, StartsWith("Rank 3"));
}

} // namespace
} // namespace braid::view
