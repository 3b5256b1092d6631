//===- tests/runtime/flight_record_test.cpp - makes, writes and reads flight records ----------===//

#include "runtime/job/flight_record.h"

#include "tests/runtime/fake_job.h"

#include "llvm/ADT/StringExtras.h"
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
using testing::StartsWith;

const JobCause kCause = {Status(StatusCode::PeerFailed, "rank 1 was killed by signal 9"), 1};

/// Returns a job in which all ranks have completed run 1. In run 2, rank 1 has died in its first
/// copy; the other ranks wait for its data or have already received it.
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

std::string recordsOf(const FakeJob &job, const std::string &name = "job-7") {
  return flightRecords(job.memory, job.plans, name);
}

// -- The text. --

TEST(FlightRecord, SaysWhoFailedFirstAndWhatRanksWereInFurthestBehindFirst) {
  const std::string text = recordsOf(brokenJob());
  EXPECT_THAT(text, StartsWith("flight records of 4 ranks of job job-7\n"
                               "program @ring in ring.braid\n"
                               "results were committed 1 time\n"
                               "\n"
                               "first cause: exit code 5, caused by rank 1\n"
                               "  rank 1 was killed by signal 9\n"));
  EXPECT_THAT(text, HasSubstr("; slowest first\n"
                              "        20/40  rank 1 is executing \"set %mine, %own\" at "));
  EXPECT_THAT(text,
              HasSubstr("\n        21/40  rank 0 is waiting for rank 1 in \"%r = p2p recv %block "
                        "from (rank + %i) mod 4 via %h\" (trip 1) at ring.braid:13:5, run 2 "
                        "(the flag is 1, expected 2), for "));
}

TEST(FlightRecord, ComparesRanksWhoseRunsHaveMoreCommands) {
  FakeJob job = brokenJob();
  const size_t commands = job.plans[2].commands.size();
  job.plans[2].commands.resize(10 * commands, job.plans[2].commands.back());
  EXPECT_THAT(recordsOf(job), HasSubstr("slowest first\n        21/40  rank 2 "));
}

TEST(FlightRecord, WorksWithoutPlans) {
  FakeJob job = brokenJob();
  job.plans.clear();
  EXPECT_THAT(recordsOf(job),
              AllOf(HasSubstr("program: none yet"), HasSubstr("rank 1 is executing command ")));
}

const std::string kEvil = "\x1b[31m\a\r\b\x7f\xc2\x9b\x32J\xe2\x80\xae\xff\xc0\x80 end";
constexpr const char *kTamed = "\\x1b[31m\\x07\\x0d\\x08\\x7f\\x9b2J\\u{202e}\\xff\\xc0\\x80 end";

void expectPrintable(const std::string &text) {
  for (unsigned char c : text)
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int(c);
  EXPECT_THAT(text, HasSubstr(kTamed));
}

TEST(FlightRecord, ShowsNothingThatATerminalObeys) {
  FakeJob job(4);
  for (Plan &plan : job.plans) {
    plan.program = plan.sourceName = kEvil;
    for (Site &site : plan.sites)
      site.text = kEvil;
  }
  job.enter(0, 2, job.find(0, CommandKind::Copy, ""), /*isWaiting=*/false);
  job.memory.abort({Status(StatusCode::PeerFailed, kEvil + "\n" + kEvil), 1});
  expectPrintable(recordsOf(job, kEvil));
  job.plans[0].sourceName = "pr\xc3\xbc"
                            "fung.braid";
  EXPECT_THAT(recordsOf(job), HasSubstr("in pr\xc3\xbc"
                                        "fung.braid\n"));
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
  EXPECT_THAT(names(root + "/new"), ElementsAre("host0.txt", "host1.txt"));
  EXPECT_EQ(modeOf(root + "/new") & 0777, 0700u);
  EXPECT_EQ(modeOf(root + "/new/host0.txt"), S_IFREG | 0600u);
  Result<std::vector<std::string>> lines = readFlightRecords(root + "/new/host0.txt");
  ASSERT_TRUE(lines.isOk()) << lines.status().message();
  EXPECT_THAT(*lines, testing::Contains("first cause: exit code 5, caused by rank 1"));
}

TEST_F(FlightFiles, AreReadOnlyIfTheyAreRecords) {
  const std::string file = root + "/file";
  const auto read = [&](const std::string &text) {
    std::error_code error;
    llvm::raw_fd_ostream(file, error) << text;
    return readFlightRecords(file);
  };
  for (const char *text : {"", "[]", "flight records"})
    EXPECT_EQ(read(text).status().message(), file + ": this file contains no flight records");
  const auto lines = read("flight records of a job\n" + kEvil);
  ASSERT_TRUE(lines.isOk()) << lines.status().message();
  EXPECT_EQ(lines->front(), "flight records of a job");
  expectPrintable(llvm::join(*lines, "\n"));
}

TEST_F(FlightFiles, ReplaceLinks) {
  const std::string victim = root + "/victim", target = root + "/host0.txt";
  std::error_code error;
  llvm::raw_fd_ostream(victim, error) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), target.c_str()), 0);
  ASSERT_TRUE(write(brokenJob(), root).isOk());
  EXPECT_EQ(contents(victim), "precious");
  EXPECT_TRUE(S_ISREG(modeOf(target)));
  EXPECT_THAT(names(root), ElementsAre("host0.txt", "victim"));
}

TEST_F(FlightFiles, SayWhereTheyCannotBeWritten) {
  const FakeJob job = brokenJob();
  for (const Status &status :
       {write(job, root + "/no/such/folder"), checkRecordsFolder(root + "/no/such/folder")})
    EXPECT_THAT(status.message(), HasSubstr("No such file or directory"));
  EXPECT_TRUE(checkRecordsFolder(root + "/new").isOk());
  EXPECT_TRUE(checkRecordsFolder(root).isOk());
  ASSERT_TRUE(write(job, root).isOk());
  EXPECT_THAT(checkRecordsFolder(root + "/host0.txt").message(), HasSubstr("Not a directory"));
  ASSERT_EQ(remove((root + "/host0.txt").c_str()), 0);
  ASSERT_EQ(mkdir((root + "/host0.txt").c_str(), 0700), 0);
  EXPECT_THAT(write(job, root).message(), HasSubstr("/host0.txt': "));
}

} // namespace
} // namespace braid
