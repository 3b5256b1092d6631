//===- tests/runtime/flight_record_test.cpp - making, writing, reading and explaining records -===//

#include "runtime/job/explain.h"

#include "tests/runtime/fake_job.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <gmock/gmock.h>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

using test::FakeJob;
using test::kRelaxed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

const JobCause kCause = {Status(StatusCode::PeerFailed, "rank 1 was killed by signal 9"), 1};

/// Run 1 is complete on all ranks. In run 2, rank 1 died in its first copy; the other ranks wait
/// for its data or have received them.
FakeJob brokenJob() {
  FakeJob job(4);
  for (int64_t rank = 0; rank < 4; ++rank) {
    job.issue(rank, 2);
    job.completeUpTo(rank, 1, static_cast<uint32_t>(job.plans[rank].commands.size()));
    if (rank != 1)
      job.complete(rank, 2, 0, 500);
  }
  const uint32_t own = job.find(1, CommandKind::Copy, "set %mine");
  job.enter(1, 2, own, /*isWaiting=*/false, 450);
  job.enter(0, 2, job.find(0, CommandKind::Await, "p2p recv", 1), /*isWaiting=*/true, 400);
  job.memory.slot(1).state.store(RankState::Dead, kRelaxed);
  job.memory.commit(1);
  job.memory.abort(kCause);
  return job;
}

FlightRecords recordsOf(const FakeJob &job) { return recordsOf(job.memory, job.plans, "job-7"); }

std::string errorOf(const std::string &text) {
  Result<FlightRecords> records = FlightRecords::decode(text, "r.json");
  EXPECT_FALSE(records.isOk());
  EXPECT_EQ(records.status().code(), StatusCode::BadInput);
  return records.status().message();
}

// -- Records made from the job memory. --

TEST(FlightRecord, SaysWhatTheSlotAndThePlanSay) {
  const FakeJob job = brokenJob();
  const FlightRecords records = recordsOf(job);
  EXPECT_EQ(records.job, "job-7");
  EXPECT_EQ(records.program, "ring");
  EXPECT_EQ(records.source, "ring.braid");
  EXPECT_EQ(records.committed, 1);
  EXPECT_EQ(records.cause, (RecordedCause{5, 1, "rank 1 was killed by signal 9"}));
  ASSERT_EQ(records.ranks.size(), 4u);
  const RankRecord &record = records.ranks[0];
  EXPECT_EQ(record.commands, static_cast<int64_t>(job.plans[0].commands.size()));
  EXPECT_EQ(record.completed, record.commands + 1);
  EXPECT_EQ(record.issued, 2 * record.commands);
  EXPECT_THAT(record.doing, StartsWith("rank 0 waits for rank 1 in \"%r = p2p recv %block"));
}

TEST(FlightRecord, WorksWithoutPlans) {
  FakeJob job = brokenJob();
  job.plans.clear();
  EXPECT_THAT(explainRecords(recordsOf(job)),
              AllOf(HasSubstr("program: none yet"), HasSubstr("rank 1 is in command ")));
}

// -- Text. --

TEST(FlightRecord, ComesBackFromItsText) {
  FlightRecords records = recordsOf(brokenJob());
  records.job = "a \"quoted\"\n\x1b[31m name, \xc3\xa9";
  const std::string text = records.encode();
  Result<FlightRecords> back = FlightRecords::decode(text);
  ASSERT_TRUE(back.isOk()) << back.status().message();
  EXPECT_EQ(back->encode(), text);
  EXPECT_EQ(back->job, records.job);
  EXPECT_EQ(back->cause, records.cause);
  ASSERT_EQ(back->ranks.size(), 4u);
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(back->ranks[rank].doing, records.ranks[rank].doing);
}

TEST(FlightRecord, SaysWhatIsWrongWithAText) {
  const std::string good = recordsOf(brokenJob()).encode();
  EXPECT_EQ(errorOf("{\n  \"a\": x"), "r.json:2:8: expected JSON");
  EXPECT_THAT(errorOf(good.substr(0, good.size() / 2)),
              MatchesRegex("r.json:[0-9]+:[0-9]+: expected JSON"));
  EXPECT_EQ(errorOf("[]"), "r.json: expected flight records of version 4, got other JSON");
  EXPECT_EQ(errorOf("{\"braid_flight_records\": 1}"),
            "r.json: expected flight records of version 4, got 1");
  // Replaces the value of the first member with that name.
  auto error = [&](const char *member, const char *text) {
    const size_t at = good.find(std::string("\"") + member + "\": ") + strlen(member) + 4;
    return errorOf(good.substr(0, at) + text + good.substr(good.find_first_of(",\n", at)));
  };
  EXPECT_EQ(error("committed", "1e300"), "r.json: expected integer at records.committed");
  EXPECT_EQ(error("code", "\"5\""), "r.json: expected integer at records.cause.code");
  EXPECT_EQ(error("issued", "\"5\""), "r.json: expected integer at records.ranks[0].issued");
  EXPECT_EQ(error("text", "null"), "r.json: expected string at records.cause.text");
  FlightRecords none = recordsOf(brokenJob());
  none.ranks.clear();
  EXPECT_EQ(errorOf(none.encode()), "r.json: expected records of at least one rank, got none");
}

// -- Files. --

class FlightFiles : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("braid-flight", path));
    root = path.str().str();
  }
  void TearDown() override { llvm::sys::fs::remove_directories(root); }

  Status write(const FakeJob &job, const std::string &folder) {
    return writeFlightRecords(folder, job.memory, job.plans, "job-7").status();
  }
  static std::string contents(const std::string &path) {
    auto file = llvm::MemoryBuffer::getFile(path);
    return file ? (*file)->getBuffer().str() : "unreadable";
  }
  static unsigned modeOf(const std::string &path) {
    struct stat info = {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info.st_mode;
  }
  std::vector<std::string> names(const std::string &folder) {
    std::vector<std::string> found;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator at(folder, error), end; !error && at != end;
         at.increment(error))
      found.push_back(llvm::sys::path::filename(at->path()).str());
    std::sort(found.begin(), found.end());
    return found;
  }

  std::string root;
};

TEST_F(FlightFiles, AreOnePerHostAndTheOwnersOnly) {
  const FakeJob job = brokenJob(), other(4, true, {1, 2});
  ASSERT_TRUE(write(job, root + "/new").isOk());
  ASSERT_TRUE(write(other, root + "/new").isOk());
  EXPECT_THAT(names(root + "/new"), ElementsAre("host0.json", "host1.json"));
  EXPECT_EQ(modeOf(root + "/new") & 0777, 0700u);
  EXPECT_EQ(modeOf(root + "/new/host0.json"), S_IFREG | 0600u);
  Result<FlightRecords> records = FlightRecords::decode(contents(root + "/new/host0.json"));
  ASSERT_TRUE(records.isOk()) << records.status().message();
  EXPECT_EQ(records->cause.rank, 1);
}

TEST_F(FlightFiles, ReplaceLinks) {
  const std::string victim = root + "/victim", target = root + "/host0.json";
  std::error_code error;
  llvm::raw_fd_ostream(victim, error) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), target.c_str()), 0);
  ASSERT_TRUE(write(brokenJob(), root).isOk());
  EXPECT_EQ(contents(victim), "precious");
  EXPECT_TRUE(S_ISREG(modeOf(target)));
  EXPECT_THAT(names(root), ElementsAre("host0.json", "victim"));
}

TEST_F(FlightFiles, SayWhereTheyCannotBeWritten) {
  const FakeJob job = brokenJob();
  for (const Status &status :
       {write(job, root + "/no/such/folder"), checkRecordsFolder(root + "/no/such/folder")})
    EXPECT_THAT(status.message(), HasSubstr("No such file or directory"));
  EXPECT_TRUE(checkRecordsFolder(root + "/new").isOk());
  EXPECT_TRUE(checkRecordsFolder(root).isOk());
  ASSERT_TRUE(write(job, root).isOk());
  EXPECT_THAT(checkRecordsFolder(root + "/host0.json").message(), HasSubstr("Not a directory"));
  ASSERT_EQ(remove((root + "/host0.json").c_str()), 0);
  ASSERT_EQ(mkdir((root + "/host0.json").c_str(), 0700), 0);
  EXPECT_THAT(write(job, root).message(), HasSubstr("/host0.json': "));
}

// -- Explanations. --

TEST(ExplainRecords, SaysWhoFailedFirstWhatRanksWereInAndWhoIsBehind) {
  const std::string text = explainRecords(recordsOf(brokenJob()));
  EXPECT_THAT(text, StartsWith("job job-7, 4 ranks\n"
                               "program @ring in ring.braid\n"
                               "results were committed 1 time\n"
                               "\n"
                               "first cause: exit code 5, by rank 1\n"
                               "  rank 1 was killed by signal 9\n"));
  EXPECT_THAT(text, HasSubstr("\n        21/40  rank 0 waits for rank 1 in \"%r = p2p recv %block "
                              "from (rank + %i) mod 4 via %h\" (trip 1) at ring.braid:13:5, run 2 "
                              "(the flag is 1, wanted 2), for "));
  EXPECT_THAT(text, HasSubstr("\n        20/40  rank 1 is in \"set %mine, %own\" at "));
  EXPECT_THAT(text, HasSubstr("\nfurthest behind: rank 1\n"));
}

TEST(ExplainRecords, ComparesRanksWhoseRunsHaveMoreCommands) {
  FlightRecords records = recordsOf(brokenJob());
  const auto lastLine = [&] {
    const std::string text = explainRecords(records);
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  EXPECT_EQ(lastLine(), "furthest behind: rank 1\n");
  records.ranks.erase(records.ranks.begin() + 1);
  EXPECT_EQ(lastLine(), "furthest behind: none, all ranks have got equally far\n");
  records.ranks[0].commands *= 10;
  records.ranks[0].completed *= 10;
  EXPECT_EQ(lastLine(), "furthest behind: none, all ranks have got equally far\n");
  records.ranks[2].completed += 1;
  EXPECT_EQ(lastLine(), "furthest behind: ranks 0-1\n");
}

TEST(ExplainRecords, ShowsNothingThatATerminalObeys) {
  FlightRecords records = recordsOf(brokenJob());
  const std::string evil = "\x1b[31m\a\r\b\x7f\xc2\x9b\x32J\xe2\x80\xae\xff\xc0\x80 end";
  records.job = records.program = records.source = evil;
  records.cause.text = evil + "\n" + evil;
  for (RankRecord &record : records.ranks)
    record.doing = evil;
  const std::string text = explainRecords(records);
  for (unsigned char c : text)
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int(c);
  EXPECT_THAT(text, HasSubstr("\\x1b[31m\\x07\\x0d\\x08\\x7f\\x9b2J\\u{202e}\\xff\\xc0\\x80 end"));
  records.source = "pr\xc3\xbc"
                   "fung.braid";
  EXPECT_THAT(explainRecords(records), HasSubstr("in pr\xc3\xbc"
                                                 "fung.braid\n"));
}

} // namespace
} // namespace braid
