//===- tests/runtime/flight_record_test.cpp - records: made, written, read, explained ---------===//

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
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

const JobCause kCause = {Status(StatusCode::PeerFailed, "rank 1 was killed by signal 9"), 1};

/// Run 1 is complete on all ranks; in run 2 rank 1 stopped in its first copy, and the others wait
/// for what they get from it, or have it all.
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
  job.memory.slot(1).state.store(uint32_t(RankState::Dead), kRelaxed);
  job.memory.commit(1);
  job.memory.abort(kCause);
  return job;
}

std::vector<FlightRecord> recordsOf(const FakeJob &job, const std::vector<int64_t> &ranks) {
  std::vector<FlightRecord> records;
  for (int64_t rank : ranks)
    records.push_back(recordOf(job.memory, job.plans, rank, "job-7"));
  return records;
}

FlightRecord recordOf(const FakeJob &job, int64_t rank) { return recordsOf(job, {rank}).front(); }

std::string errorOf(const std::string &text) {
  Result<FlightRecord> record = FlightRecord::decode(text, "r.json");
  EXPECT_FALSE(record.isOk());
  EXPECT_EQ(record.status().code(), StatusCode::BadInput);
  return record.status().message();
}

// -- Made from the job memory. --

TEST(FlightRecord, SaysWhatTheSlotAndThePlanSay) {
  const FakeJob job = brokenJob();
  const FlightRecord record = recordOf(job, 0);
  EXPECT_EQ(record.job, "job-7");
  EXPECT_EQ(record.ranks, 4);
  EXPECT_EQ(record.program, "ring");
  EXPECT_EQ(record.source, "ring.braid");
  EXPECT_EQ(record.committed, 1);
  EXPECT_EQ(record.cause, (RecordedCause{5, 1, "rank 1 was killed by signal 9"}));
  EXPECT_EQ(record.commands, static_cast<int64_t>(job.plans[0].commands.size()));
  EXPECT_EQ(record.completed, record.commands + 1);
  EXPECT_EQ(record.issued, 2 * record.commands);
  EXPECT_THAT(record.doing, StartsWith("rank 0 waits for rank 1 in \"%r = p2p recv %block"));
  ASSERT_EQ(record.flight.size(), job.plans[0].commands.size() + 2);
  const RecordedCommand &last = record.flight.back();
  EXPECT_EQ(last.endNs, 0);
  EXPECT_EQ(last.beginNs, record.current.beginNs);
  for (const RecordedCommand &command : {last, record.current}) {
    EXPECT_EQ(command.run, 2);
    EXPECT_EQ(command.kind, "await");
    EXPECT_EQ(command.peer, 1);
    EXPECT_EQ(command.trips, "1");
    EXPECT_EQ(command.place, "ring.braid:13:5");
    EXPECT_THAT(command.text, HasSubstr("p2p recv %block"));
  }
}

TEST(FlightRecord, WorksWithoutPlans) {
  FakeJob job = brokenJob();
  job.plans.clear();
  EXPECT_TRUE(recordOf(job, 0).flight.empty());
  EXPECT_THAT(explainRecords(recordsOf(job, {0, 1, 2, 3})),
              AllOf(HasSubstr("program: none yet"), HasSubstr("rank 1 is in command ")));
}

TEST(FlightRecord, LeavesOutEntriesThatAreBeingWritten) {
  FakeJob job(1);
  for (uint32_t i = 0; i < kFlightEntries + 10; ++i)
    job.note(0, 1, 0, 1000 + i, 2000 + i);
  RankSlot &slot = job.memory.slot(0);
  // Somebody has taken the next number, and has written half of the oldest entry.
  const uint64_t taken = slot.flightNext.fetch_add(1, kRelaxed);
  slot.flight[taken % kFlightEntries].sequence.store(0, kRelaxed);
  slot.flight[taken % kFlightEntries].beginNs.store(9999, kRelaxed);
  // One was never finished: its number is missing.
  slot.flight[(taken - 5) % kFlightEntries].sequence.store(0, kRelaxed);
  const FlightRecord record = recordOf(job, 0);
  int64_t last = 0;
  for (const RecordedCommand &command : record.flight) {
    EXPECT_GT(command.beginNs, last);
    EXPECT_EQ(command.beginNs + 1000, command.endNs);
    last = command.beginNs;
  }
  EXPECT_GE(record.flight.size(), kFlightEntries - 3);
}

// -- Text. --

TEST(FlightRecord, ComesBackFromItsText) {
  for (int64_t rank = 0; rank < 4; ++rank) {
    FlightRecord record = recordOf(brokenJob(), rank);
    record.job = "a \"quoted\"\n\x1b[31m name, \xc3\xa9";
    const std::string text = record.encode();
    Result<FlightRecord> back = FlightRecord::decode(text);
    ASSERT_TRUE(back.isOk()) << back.status().message();
    EXPECT_EQ(back->encode(), text);
    EXPECT_EQ(back->job, record.job);
    EXPECT_EQ(back->rank, rank);
    EXPECT_EQ(back->doing, record.doing);
    EXPECT_EQ(back->cause, record.cause);
    EXPECT_EQ(back->flight.size(), record.flight.size());
  }
}

TEST(FlightRecord, SaysWhatIsWrongWithAText) {
  const std::string good = recordOf(brokenJob(), 0).encode();
  EXPECT_EQ(errorOf("{\n  \"a\": x"), "r.json:2:8: expected JSON");
  EXPECT_THAT(errorOf(good.substr(0, good.size() / 2)),
              MatchesRegex("r.json:[0-9]+:[0-9]+: expected JSON"));
  EXPECT_EQ(errorOf("[]"), "r.json: expected a flight record of version 2, got other JSON");
  EXPECT_EQ(errorOf("{\"braid_flight_record\": 1}"),
            "r.json: expected a flight record of version 2, got 1");
  // Replaces the first member of that name.
  auto error = [&](const char *member, const char *text) {
    const size_t at = good.find(std::string("\"") + member + "\": ") + strlen(member) + 4;
    return errorOf(good.substr(0, at) + text + good.substr(good.find_first_of(",\n", at)));
  };
  EXPECT_EQ(error("ranks", "0"), "r.json: expected a rank of at most 65536 ranks, got rank 0 of 0");
  EXPECT_THAT(error("ranks", "65537"), HasSubstr("got rank 0 of 65537"));
  EXPECT_EQ(error("committed", "1e300"), "r.json: expected integer at record.committed");
  EXPECT_EQ(error("source", "3"), "r.json: expected string at record.source");
  EXPECT_EQ(error("code", "\"5\""), "r.json: expected integer at record.cause.code");
  EXPECT_EQ(error("stream", "null"), "r.json: expected string at record.current.stream");
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

  Status write(const FakeJob &job, const std::string &folder, const std::vector<int64_t> &ranks) {
    return writeFlightRecords(folder, job.memory, job.plans, ranks, "job-7");
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

TEST_F(FlightFiles, AreOnePerRankAndTheOwnersOnly) {
  const FakeJob job = brokenJob();
  ASSERT_TRUE(write(job, root + "/new", {0, 3}).isOk());
  EXPECT_THAT(names(root + "/new"), ElementsAre("rank0.json", "rank3.json"));
  EXPECT_EQ(modeOf(root + "/new") & 0777, 0700u);
  EXPECT_EQ(modeOf(root + "/new/rank3.json"), S_IFREG | 0600u);
  Result<FlightRecord> record = FlightRecord::decode(contents(root + "/new/rank3.json"));
  ASSERT_TRUE(record.isOk()) << record.status().message();
  EXPECT_EQ(record->rank, 3);
}

/// The command that a failed run prints, `braid explain DIR/*.json`, reads records of one job.
TEST_F(FlightFiles, ReplaceLinksAndThoseOfALargerJob) {
  const std::string victim = root + "/victim", target = root + "/rank0.json";
  std::error_code error;
  llvm::raw_fd_ostream(victim, error) << "precious";
  llvm::raw_fd_ostream(root + "/rank5.json.kept", error) << "";
  ASSERT_EQ(symlink(victim.c_str(), target.c_str()), 0);
  ASSERT_TRUE(write(FakeJob(6), root, {3, 4, 5}).isOk());
  ASSERT_TRUE(write(brokenJob(), root, {0, 1, 2, 3}).isOk());
  EXPECT_EQ(contents(victim), "precious");
  EXPECT_TRUE(S_ISREG(modeOf(target)));
  EXPECT_THAT(names(root), ElementsAre("rank0.json", "rank1.json", "rank2.json", "rank3.json",
                                       "rank5.json.kept", "victim"));
}

TEST_F(FlightFiles, SayWhereTheyCannotBeWritten) {
  const FakeJob job = brokenJob();
  for (const Status &status :
       {write(job, root + "/no/such/folder", {0}), checkRecordsFolder(root + "/no/such/folder")})
    EXPECT_THAT(status.message(), HasSubstr("No such file or directory"));
  // One that fails does not keep the others from being written.
  ASSERT_EQ(mkdir((root + "/rank0.json").c_str(), 0700), 0);
  EXPECT_THAT(write(job, root, {0, 1}).message(), HasSubstr("/rank0.json': "));
  EXPECT_THAT(names(root), ElementsAre("rank0.json", "rank1.json"));
  EXPECT_TRUE(checkRecordsFolder(root + "/new").isOk());
  EXPECT_TRUE(checkRecordsFolder(root).isOk());
  EXPECT_THAT(checkRecordsFolder(root + "/rank1.json").message(), HasSubstr("Not a directory"));
}

// -- Explained. --

TEST(ExplainRecords, SaysWhoFailedFirstWhatRanksWereInAndWhoIsBehind) {
  const std::string text = explainRecords(recordsOf(brokenJob(), {0, 1, 3}));
  EXPECT_THAT(text, StartsWith("job job-7, 4 ranks\n"
                               "program @ring in ring.braid\n"
                               "results were committed 1 time\n"
                               "records of ranks 0-1, 3; missing: rank 2\n"
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
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 2, 3});
  EXPECT_THAT(ranksBehind(records), IsEmpty());
  records[0].commands *= 10;
  records[0].completed *= 10;
  EXPECT_THAT(ranksBehind(records), IsEmpty());
  records[0].completed -= 1;
  EXPECT_THAT(ranksBehind(records), ElementsAre(0));
  EXPECT_THAT(ranksBehind(recordOf(brokenJob(), 0)), IsEmpty());
}

TEST(ExplainRecords, SaysWhichRecordsMayBeOfAnotherRun) {
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1, 3});
  EXPECT_THAT(explainRecords(records), Not(HasSubstr("cause, say")));
  records[1].cause.text = "rank 2 was killed by signal 9";
  EXPECT_THAT(explainRecords(records),
              AllOf(HasSubstr("\nfirst cause, say ranks 0, 3: exit code 5, by rank 1\n  rank 1 "),
                    HasSubstr("\nfirst cause, say rank 1: exit code 5, by rank 1\n  rank 2 ")));
}

TEST(ExplainRecords, RefusesRecordsThatDoNotBelongTogether) {
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1});
  auto error = [&](const std::function<void(FlightRecord &)> &change) {
    std::vector<FlightRecord> changed = records;
    change(changed[1]);
    const Result<std::vector<FlightRecord>> sorted = sortRecords(changed, {"a.json", "b.json"});
    EXPECT_FALSE(sorted.isOk());
    EXPECT_EQ(sorted.status().code(), StatusCode::BadInput);
    return sorted.status().message();
  };
  EXPECT_THAT(error([](FlightRecord &record) { record.job = "job-8\x1b[2J"; }),
              MatchesRegex("b.json: expected a record of job 'job-7' with 4 ranks, program @ring "
                           "\\([0-9a-f]+\\), as in a.json, got one of job 'job-8\\\\x1b\\[2J' with "
                           "4 ranks, program @ring .*"));
  EXPECT_THAT(error([](FlightRecord &record) { record.ranks = 8; }), HasSubstr("with 8 ranks"));
  EXPECT_EQ(error([](FlightRecord &record) { record.rank = 0; }),
            "b.json: expected a record of another rank, got one of rank 0, as in a.json");
  EXPECT_THAT(error([](FlightRecord &record) { record.program = "other"; }),
              HasSubstr("program @other ("));
  EXPECT_THAT(error([](FlightRecord &record) { record.fingerprint = "1"; }),
              HasSubstr("program @ring (1)"));
}

TEST(ExplainRecords, ShowsNothingThatATerminalObeys) {
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1});
  const std::string evil = "\x1b[31m\a\r\b\x7f\xc2\x9b\x32J\xe2\x80\xae\xff\xc0\x80 end";
  for (FlightRecord &record : records) {
    record.job = record.program = record.source = record.doing = evil;
    record.cause.text = evil + "\n" + evil;
  }
  const std::string text = explainRecords(records);
  for (unsigned char c : text)
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int(c);
  EXPECT_THAT(text, HasSubstr("\\x1b[31m\\x07\\x0d\\x08\\x7f\\x9b2J\\u{202e}\\xff\\xc0\\x80 end"));
  records[0].source = "pr\xc3\xbc"
                      "fung.braid";
  EXPECT_THAT(explainRecords(records), HasSubstr("in pr\xc3\xbc"
                                                 "fung.braid\n"));
}

} // namespace
} // namespace braid
