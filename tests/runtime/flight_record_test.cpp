//===- tests/runtime/flight_record_test.cpp - records: made, written, read, explained ---------===//

#include "runtime/job/flight_page.h"

#include "tests/runtime/fake_job.h"
#include "tests/support/explain_records.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

using test::explain;
using test::FakeJob;
using test::kRelaxed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

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
  EXPECT_EQ(record.committed, 1u);
  ASSERT_TRUE(record.cause);
  EXPECT_EQ(record.cause->code, StatusCode::PeerFailed);
  EXPECT_EQ(record.cause->rank, 1);
  EXPECT_EQ(record.cause->text, "rank 1 was killed by signal 9");
  EXPECT_EQ(record.commands.size(), job.plans[0].commands.size());
  EXPECT_EQ(record.state.queues.size(), 3u);
  ASSERT_EQ(record.flight.size(), job.plans[0].commands.size() + 2);
  const FlightSnapshot &last = record.flight.back();
  EXPECT_EQ(last.endNs, 0u);
  EXPECT_EQ(last.id.run, 2u);
  const FlightCommand *command = record.find(last.id.command);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->kind, "await");
  EXPECT_EQ(command->peer, 1);
  EXPECT_THAT(command->trips, ElementsAre(1));
  EXPECT_EQ(record.nodes[command->node].place, "ring.braid:13:5");
  EXPECT_THAT(record.nodes[command->node].text, HasSubstr("p2p recv %block"));
}

TEST(FlightRecord, WorksWithoutPlans) {
  FakeJob job = brokenJob();
  job.plans.clear();
  const FlightRecord record = recordOf(job, 0);
  EXPECT_EQ(record.program, "");
  EXPECT_TRUE(record.commands.empty());
  EXPECT_FALSE(record.flight.empty());
  EXPECT_THAT(explain(recordsOf(job, {0, 1, 2, 3})),
              AllOf(HasSubstr("program: none yet"), HasSubstr("command ")));
}

TEST(FlightRecord, LeavesOutEntriesThatAreBeingWritten) {
  FakeJob job(1, /*hasPlans=*/false);
  for (uint32_t i = 0; i < kFlightEntries + 10; ++i)
    job.note(0, 1, i, 0, 1000 + i, 2000 + i);
  RankSlot &slot = job.memory.slot(0);
  // Somebody has taken the next number, and has written half of the oldest entry.
  const uint64_t taken = slot.flightNext.fetch_add(1, kRelaxed);
  slot.flight[taken % kFlightEntries].command.store(uint64_t(1) << 32 | 4000, kRelaxed);
  // One was never finished: its number is missing.
  slot.flight[(taken - 5) % kFlightEntries].sequence.store(0, kRelaxed);
  uint64_t last = 0;
  const FlightRecord record = recordOf(job, 0);
  for (const FlightSnapshot &entry : record.flight) {
    EXPECT_GT(entry.sequence, last);
    EXPECT_EQ(entry.id.command + 1, entry.sequence);
    last = entry.sequence;
  }
  EXPECT_EQ(last, taken - 1);
  EXPECT_GE(record.flight.size(), kFlightEntries - 3);
}

TEST(FlightRecord, RemembersWhatAQueueGaveUp) {
  FakeJob job = brokenJob();
  const uint32_t await = job.find(0, CommandKind::Await, "p2p recv", 1);
  QueueSlot &queue = job.memory.slot(0).queue[job.plans[0].commands[await].stream];
  queue.current.store(~uint64_t(0), kRelaxed);
  const FlightRecord record = recordOf(job, 0);
  const QueueSnapshot &kept = record.state.queues[job.plans[0].commands[await].stream];
  EXPECT_EQ(kept.current, (CommandId{2, await}));
  EXPECT_TRUE(kept.isWaiting);
  EXPECT_EQ(kept.flagValue, 1u);
  EXPECT_EQ(kept.wantedValue, 2u);
}

TEST(FlightRecord, KeepsAWindowOfALongPlan) {
  FakeJob job(2);
  Plan &plan = job.plans[0];
  const Command copy = plan.commands[0];
  plan.commands.assign(10000, copy);
  job.complete(0, 1, 7000);
  job.complete(1, 1, 0);
  FlightRecord record = recordOf(job, 0);
  EXPECT_LT(record.commands.size(), 3000u);
  EXPECT_TRUE(record.find(0)); // where rank 1 is
  EXPECT_TRUE(record.find(7000));
  EXPECT_FALSE(record.find(6000));
  job.memory.slot(1).queue[0].lastDone.store(uint64_t(1) << 32 | 9990, kRelaxed);
  record = recordOf(job, 0);
  EXPECT_FALSE(record.find(0));
  EXPECT_TRUE(record.find(7001));
  EXPECT_TRUE(FlightRecord::decode(record.encode()).isOk());
}

// -- Text. --

TEST(FlightRecord, ComesBackFromItsText) {
  const FakeJob job = brokenJob();
  for (int64_t rank = 0; rank < 4; ++rank) {
    FlightRecord record = recordOf(job, rank);
    record.streams.push_back("a \"quoted\"\n\x1b[31m name, \xc3\xa9");
    const std::string text = record.encode();
    Result<FlightRecord> back = FlightRecord::decode(text);
    ASSERT_TRUE(back.isOk()) << back.status().message();
    EXPECT_EQ(back->encode(), text);
    EXPECT_EQ(back->streams, record.streams);
    EXPECT_EQ(back->rank, rank);
    EXPECT_EQ(back->flight.size(), record.flight.size());
    EXPECT_EQ(back->state.queues[0].lastDone, record.state.queues[0].lastDone);
  }
}

TEST(FlightRecord, SaysWhatIsWrongWithAText) {
  const std::string good = recordOf(brokenJob(), 0).encode();
  EXPECT_EQ(errorOf(""), "r.json:1:1: expected a flight record, got text that is not JSON");
  EXPECT_EQ(errorOf("{\n  \"a\": x"),
            "r.json:2:8: expected a flight record, got text that is not JSON");
  EXPECT_THAT(errorOf(good.substr(0, good.size() / 2)),
              MatchesRegex("r.json:[0-9]+:[0-9]+: expected a flight record, .*"));
  EXPECT_EQ(errorOf("[]"), "r.json: expected a flight record, got other JSON");
  EXPECT_EQ(errorOf("{\"traceEvents\": []}"), "r.json: expected a flight record, got other JSON");
  EXPECT_THAT(errorOf(good + std::string(1, '\0') + "more"),
              MatchesRegex("r.json:[0-9]+:[0-9]+: .* got text that is not JSON"));
  EXPECT_EQ(errorOf(std::string(100000, '[')),
            "r.json: expected a flight record, got JSON that nests too deeply");
  EXPECT_EQ(errorOf("{\"braid_flight_record\": 2}"),
            "r.json: expected a record of version 1, got 2");
}

TEST(FlightRecord, SaysWhichMemberIsWrong) {
  const Json good = Json::parse(recordOf(brokenJob(), 0).encode());
  // Replaces the value at a pointer, or removes it if there is none.
  auto error = [&](const char *pointer, std::optional<Json> value) {
    Json bad = good;
    const Json::json_pointer at(pointer);
    if (value)
      bad[at] = *value;
    else
      bad[at.parent_pointer()].erase(at.back());
    return errorOf(bad.dump());
  };
  EXPECT_EQ(error("/job", std::nullopt), "r.json: expected job, got nothing");
  EXPECT_EQ(error("/rank", 4), "r.json: expected rank to be a whole number up to 3, got 4");
  EXPECT_EQ(error("/rank", -1), "r.json: expected rank to be a whole number up to 3, got -1");
  EXPECT_EQ(error("/ranks", 0), "r.json: expected ranks to be at least 1, got 0");
  EXPECT_EQ(error("/ranks", 1e300),
            "r.json: expected ranks to be a whole number up to 65536, got 1e+300");
  EXPECT_EQ(error("/job", Json::array()), "r.json: expected job to be a text, got array");
  EXPECT_EQ(error("/fingerprint", "\x1b[2J"),
            "r.json: expected fingerprint to be 16 hexadecimal digits, got \"\\u001b[2J\"");
  for (const char *digits : {"0123456789abcdef0", "0"})
    EXPECT_THAT(error("/fingerprint", digits), HasSubstr("to be 16 hexadecimal digits, got \"0"));
  EXPECT_EQ(error("/state", "gone"),
            "r.json: expected state to be one of absent, joined, left, dead, got \"gone\"");
  EXPECT_THAT(error("/cause/code", 0), HasSubstr("cause.code to be an exit code of a failure"));
  EXPECT_THAT(error("/cause/rank", 4), HasSubstr("cause.rank to be a rank below 4, or -1, got 4"));
  EXPECT_EQ(error("/queues", Json::object()),
            "r.json: expected queues to be a list of at most 32 elements, got object");
  EXPECT_EQ(error("/queues/1", 3), "r.json: expected queues[1] to be an object, got 3");
  EXPECT_EQ(error("/queues/1/waiting", 1),
            "r.json: expected queues[1].waiting to be true or false, got 1");
  EXPECT_EQ(error("/queues/0/last_done/run", "x"),
            "r.json: expected queues[0].last_done.run to be a whole number up to 4294967295, got "
            "\"x\"");
  EXPECT_THAT(error("/commands/2/node", 999),
              MatchesRegex("r.json: expected commands\\[2\\].node to be below [0-9]+, got 999"));
  EXPECT_EQ(error("/commands/2/index", 1),
            "r.json: expected commands[2].index to be above 1, got 1");
  EXPECT_EQ(error("/commands/2/trips", "x"),
            "r.json: expected commands[2].trips to be a list, got \"x\"");
  EXPECT_EQ(error("/commands/2/stream", 20000000),
            "r.json: expected commands[2].stream to be below 3, got 20000000");
  const uint64_t most = ~uint64_t(0); // -1, if its bits are taken for those of a signed number
  EXPECT_EQ(error("/commands/2/peer", most),
            "r.json: expected commands[2].peer to be a rank below 4, or -1, got "
            "18446744073709551615");
  EXPECT_EQ(error("/commands/2/trips", Json::array({1, most})),
            "r.json: expected commands[2].trips to be whole numbers of 64 bits, got "
            "18446744073709551615");
  EXPECT_EQ(error("/flight/0/sequence", 0),
            "r.json: expected flight[0].sequence to be above 0, got 0");
}

TEST(FlightRecord, RefusesEveryDamageOrReadsIt) {
  const std::string good = recordOf(brokenJob(), 1).encode();
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x11);
    Result<FlightRecord> record = FlightRecord::decode(bad);
    EXPECT_FALSE(record ? explain(*record).empty() : record.status().message().empty());
  }
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

TEST_F(FlightFiles, ReplaceLinksAndOlderFiles) {
  const std::string victim = root + "/victim", target = root + "/out/rank0.json";
  ASSERT_EQ(mkdir((root + "/out").c_str(), 0700), 0);
  std::error_code error;
  llvm::raw_fd_ostream(victim, error) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), target.c_str()), 0);
  const FakeJob job = brokenJob();
  ASSERT_TRUE(write(job, root + "/out", {0}).isOk());
  EXPECT_EQ(contents(victim), "precious");
  EXPECT_TRUE(S_ISREG(modeOf(target)));
  ASSERT_TRUE(write(job, root + "/out", {0}).isOk());
  EXPECT_THAT(names(root + "/out"), ElementsAre("rank0.json"));
}

/// The command that a failed run prints, `braid explain DIR/*.json`, reads records of one job.
TEST_F(FlightFiles, ReplaceThoseOfALargerJob) {
  const FakeJob larger(6), job = brokenJob();
  ASSERT_TRUE(write(larger, root, {0, 3, 4, 5}).isOk());
  std::error_code error;
  llvm::raw_fd_ostream(root + "/rank5.json.kept", error) << "";
  llvm::raw_fd_ostream(root + "/rank05.json", error) << "";
  ASSERT_TRUE(write(job, root, {0, 1, 2, 3}).isOk());
  EXPECT_THAT(names(root), ElementsAre("rank0.json", "rank05.json", "rank1.json", "rank2.json",
                                       "rank3.json", "rank5.json.kept"));
}

TEST_F(FlightFiles, SayWhereTheyCannotBeWritten) {
  const FakeJob job = brokenJob();
  const std::string link = root + "/link";
  ASSERT_EQ(symlink(root.c_str(), link.c_str()), 0);
  EXPECT_THAT(write(job, link, {0}).message(), StartsWith("cannot write '" + link + "': "));
  EXPECT_THAT(write(job, root + "/no/such/folder", {0}).message(),
              HasSubstr("No such file or directory"));
  // One that fails does not keep the others from being written.
  ASSERT_EQ(mkdir((root + "/rank0.json").c_str(), 0700), 0);
  EXPECT_THAT(write(job, root, {0, 1}).message(), HasSubstr("/rank0.json': "));
  EXPECT_THAT(names(root), ElementsAre("link", "rank0.json", "rank1.json"));
}

TEST_F(FlightFiles, GoIntoNoFolderThatOthersMayChange) {
  const FakeJob job = brokenJob();
  const std::string folder = root + "/out";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_TRUE(checkRecordsFolder(folder).isOk());
  auto expectRefused = [&] {
    for (const Status &status : {checkRecordsFolder(folder), write(job, folder, {0})})
      EXPECT_EQ(status.message(), "cannot write '" + folder +
                                      "': expected a folder of this user's that not everybody "
                                      "may write to");
    EXPECT_THAT(names(folder), ElementsAre());
  };
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  expectRefused();
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  EXPECT_TRUE(checkRecordsFolder(folder).isOk()) << "others cannot change what is not theirs";
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  if (chown(folder.c_str(), geteuid() + 1, static_cast<gid_t>(-1)) == 0) // only root can
    expectRefused();
}

// -- The page. --

TEST(FlightPage, FindsTheFirstPointWhereRanksDiffer) {
  const FakeJob job = brokenJob();
  const std::vector<FlightRecord> records = recordsOf(job, {3, 0, 1, 2});
  Result<FlightPage> page = merge(records, {"d", "a", "b", "c"});
  ASSERT_TRUE(page.isOk()) << page.status().message();
  EXPECT_THAT(page->present, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(page->missing.empty());
  ASSERT_TRUE(page->difference);
  EXPECT_EQ(page->difference->run, 2u);
  EXPECT_EQ(page->difference->node, "\"set %mine, %own\" at ring.braid:7:3");
  ASSERT_EQ(page->difference->standings.size(), 4u);
  for (const FlightStanding &standing : page->difference->standings)
    EXPECT_EQ(standing.state, standing.rank == 1 ? PointState::In : PointState::Completed);
  ASSERT_EQ(page->timeline.size(), 20u);
  EXPECT_EQ(page->timeline.front().atMs, 0);
  EXPECT_EQ(page->timeline.back().rank, 1);
  EXPECT_FALSE(page->timeline.back().tookMs);
}

TEST(FlightPage, ComparesRanksWhoseCommandsHaveOtherNumbers) {
  FakeJob job = brokenJob();
  // Rank 2 has a command of its own in front, as under an `if`.
  Plan &plan = job.plans[2];
  Command extra = plan.commands[0];
  plan.sites.push_back({{99, 1}, "set %x, %y"});
  plan.origins.push_back({static_cast<uint32_t>(plan.sites.size()) - 1, 0, 0});
  extra.origin = static_cast<uint32_t>(plan.origins.size()) - 1;
  plan.commands.insert(plan.commands.begin(), extra);
  for (uint32_t queue = 0; queue < 3; ++queue)
    job.memory.slot(2).queue[queue].lastDone.fetch_add(1, kRelaxed);
  const std::vector<FlightRecord> records = recordsOf(job, {0, 1, 2, 3});
  Result<FlightPage> page = merge(records, {"a", "b", "c", "d"});
  ASSERT_TRUE(page.isOk() && page->difference);
  EXPECT_EQ(page->difference->node, "\"set %mine, %own\" at ring.braid:7:3");
  EXPECT_EQ(page->difference->standings[2].state, PointState::Completed);
}

TEST(FlightPage, FindsTheFirstOfManyDifferencesInTheOrderOfIssue) {
  FakeJob job = brokenJob();
  for (int64_t rank : {0, 2})
    job.completeUpTo(rank, 2, static_cast<uint32_t>(job.plans[rank].commands.size()));
  job.completeUpTo(3, 2, job.find(3, CommandKind::Await, "p2p recv", 2));
  const std::vector<FlightRecord> all = recordsOf(job, {0, 1, 2, 3});
  Result<FlightPage> page = merge(all, {"a", "b", "c", "d"});
  ASSERT_TRUE(page.isOk() && page->difference);
  EXPECT_EQ(page->difference->node, "\"set %mine, %own\" at ring.braid:7:3");
  const std::vector<FlightRecord> some = recordsOf(job, {0, 2, 3});
  page = merge(some, {"a", "c", "d"});
  ASSERT_TRUE(page.isOk() && page->difference);
  EXPECT_THAT(page->difference->node, StartsWith("\"%r = p2p recv"));
  EXPECT_THAT(page->difference->node, HasSubstr("(trip 2) at ring.braid:13:5"));
}

TEST(FlightPage, SaysWhichRecordsMayBeOfAnotherRun) {
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1, 3});
  EXPECT_THAT(explain(records), Not(HasSubstr("another first cause")));
  records[1].cause->text = "rank 2 was killed by signal 9";
  EXPECT_THAT(explain(records), HasSubstr("\nrecords of rank 1 have another first cause: they may "
                                          "be of another run, or of a host that was cut off\n"));
}

TEST(FlightPage, PrintsEverythingOnOnePage) {
  const std::string text = explain(recordsOf(brokenJob(), {0, 1, 3}));
  EXPECT_THAT(text, StartsWith("job job-7, 4 ranks\n"
                               "results were committed 1 time, when all ranks had finished\n"
                               "program @ring in ring.braid\n"
                               "records of ranks 0-1, 3; missing: rank 2\n"
                               "\n"
                               "first cause: a peer failed, exit code 5, by rank 1\n"
                               "  rank 1 was killed by signal 9\n"));
  EXPECT_THAT(text, HasSubstr("    0  joined       2          21/40            1/2 "));
  EXPECT_THAT(text,
              HasSubstr("\n  done/issued: commands of the rank that are complete, of those "));
  EXPECT_THAT(text, HasSubstr("\n flag/awaited: of a rank that waits for a signal, the signal "));
  EXPECT_THAT(text, HasSubstr("; \"its own code\" says that no command is under way and "));
  EXPECT_THAT(text, HasSubstr("await from rank 1 of \"%r = p2p recv %block from (rank + %i) mod 4 "
                              "via %h\" (trip 1) at ring.braid:13:5, run 2\n"));
  EXPECT_THAT(text, HasSubstr("    1  dead "));
  EXPECT_THAT(text, HasSubstr("\nthe first point where ranks differ: \"set %mine, %own\" at "
                              "ring.braid:7:3, run 2\n    0  has completed it, at "));
  EXPECT_THAT(text, HasSubstr("    1  is in it, since "));
  EXPECT_THAT(text, HasSubstr("\nthe last 20 commands that began until then, in ms after the "
                              "first of them\n       0.000  rank "));
  EXPECT_THAT(text, HasSubstr("  rank 1    main        has not ended  copy of \"set %mine"));
}

TEST(FlightPage, SaysSoIfNoPointDiffers) {
  EXPECT_THAT(explain(recordsOf(brokenJob(), {2, 3})),
              HasSubstr("no point in the program that one of these ranks has completed and "));
  EXPECT_THAT(explain(recordOf(brokenJob(), 0)), HasSubstr("no point in the program"));
}

TEST(FlightPage, RefusesRecordsThatDoNotBelongTogether) {
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1});
  auto error = [&](const std::function<void(FlightRecord &)> &change) {
    std::vector<FlightRecord> changed = records;
    change(changed[1]);
    Result<FlightPage> page = merge(changed, {"a.json", "b.json"});
    EXPECT_FALSE(page.isOk());
    EXPECT_EQ(page.status().code(), StatusCode::BadInput);
    return page.status().message();
  };
  EXPECT_EQ(error([](FlightRecord &record) { record.job = "job-8\x1b[2J"; }),
            "b.json: expected a record of job 'job-7' with 4 ranks, as in a.json, got one of job "
            "'job-8\\x1b[2J' with 4 ranks");
  EXPECT_THAT(error([](FlightRecord &record) { record.ranks = 8; }), HasSubstr("with 8 ranks"));
  EXPECT_EQ(error([](FlightRecord &record) { record.rank = 0; }),
            "b.json: expected a record of another rank, got one of rank 0, as in a.json");
  EXPECT_THAT(error([](FlightRecord &record) { record.program = "other"; }),
              AllOf(StartsWith("b.json: expected a record of program @ring ("),
                    HasSubstr("as in a.json, got one of @other (")));
  EXPECT_THAT(error([](FlightRecord &record) { record.fingerprint ^= 1; }),
              StartsWith("b.json: expected a record of program @ring ("));
}

TEST(FlightPage, ShowsNothingThatATerminalObeys) {
  std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1});
  const std::string evil = "\x1b[31m\a\r\b\x7f\xc2\x9b\x32J\xe2\x80\xae\xff\xc0\x80 end";
  for (FlightRecord &record : records) {
    record.job = record.program = record.source = evil;
    record.cause->text = evil + "\n" + evil;
    for (FlightNode &node : record.nodes)
      node = {evil + node.text, evil};
    for (FlightCommand &command : record.commands)
      command.kind = evil;
    for (std::string &stream : record.streams)
      stream = evil;
  }
  Result<FlightPage> page = merge(records, {"a", "b"});
  ASSERT_TRUE(page.isOk());
  for (const std::string &text : {str(*page), toJson(*page)}) {
    EXPECT_THAT(text, HasSubstr(" end"));
    for (unsigned char c : text)
      EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int(c);
  }
  EXPECT_THAT(str(*page),
              HasSubstr("\\x1b[31m\\x07\\x0d\\x08\\x7f\\x9b2J\\u{202e}\\xff\\xc0\\x80 end"));
}

TEST(FlightPage, KeepsLettersOfOtherLanguages) {
  std::vector<FlightRecord> records = {recordOf(brokenJob(), 0)};
  records[0].source = "pr\xc3\xbc"
                      "fung.braid";
  EXPECT_THAT(explain(records), HasSubstr("in pr\xc3\xbc"
                                          "fung.braid\n"));
}

TEST(FlightPage, IsJsonForTools) {
  const std::vector<FlightRecord> records = recordsOf(brokenJob(), {0, 1, 3});
  Result<FlightPage> page = merge(records, {"a", "b", "c"});
  ASSERT_TRUE(page.isOk());
  const Json json = Json::parse(toJson(*page));
  EXPECT_EQ(json["job"], "job-7");
  EXPECT_EQ(json["missing"], Json({2}));
  EXPECT_EQ(json["cause"]["code"], 5);
  EXPECT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["rows"][0]["wanted"], 2);
  EXPECT_TRUE(json["rows"][1]["wanted"].is_null());
  EXPECT_EQ(json["difference"]["standings"][1]["state"], "in");
  EXPECT_EQ(json["timeline"].size(), 20u);
}

TEST(FlightPage, CopesWithManyRanks) {
  FakeJob job(512, /*hasPlans=*/false);
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < 512; ++rank)
    ranks.push_back(rank);
  EXPECT_THAT(explain(recordsOf(job, ranks)), HasSubstr("records of ranks 0-511; none is missing"));
}

} // namespace
} // namespace braid
