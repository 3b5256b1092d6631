//===- tests/pairs/measuring_test.cpp - patterns, programs, and what processes say ------------===//

#include "api/pairs/measurement.h"
#include "api/pairs/measuring_job.h"
#include "api/pairs/pair_programs.h"
#include "api/pairs/pattern.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace braid::test {
namespace {

// -- Patterns. --

std::string drawn(const PatternKey &key, int64_t bytes, Drawn what = Drawn::Bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  drawPattern(key, what, 0, text.data(), bytes);
  return text;
}

TEST(Pattern, DependsOnAllThatNamesATransfer) {
  const PatternKey key{1, 2, 64, 3};
  std::set<std::string> texts = {drawn(key, 64)};
  for (const PatternKey &other :
       {PatternKey{2, 1, 64, 3}, {0, 2, 64, 3}, {1, 3, 64, 3}, {1, 2, 68, 3}, {1, 2, 64, 4}})
    texts.insert(drawn(other, 64));
  EXPECT_EQ(texts.size(), 6u);
}

TEST(Pattern, DoesNotRepeat) {
  const std::string text = drawn({0, 1, 1 << 20, 0}, 1 << 20);
  std::set<std::string> words;
  for (size_t at = 0; at < text.size(); at += 8)
    words.insert(text.substr(at, 8));
  EXPECT_EQ(words.size(), text.size() / 8);
}

TEST(Pattern, IsTheSameInParts) {
  const PatternKey key{3, 4, 1000, 7};
  std::string parts(1000, '\0');
  drawPattern(key, Drawn::Bytes, 0, parts.data(), 400);
  drawPattern(key, Drawn::Bytes, 400, parts.data() + 400, 600);
  EXPECT_EQ(parts, drawn(key, 1000));
}

TEST(Pattern, OfPoisonIsWrongInEveryByte) {
  const PatternKey key{0, 1, 204, 0};
  const std::string right = drawn(key, 204), wrong = drawn(key, 204, Drawn::Complement);
  for (size_t i = 0; i < right.size(); ++i)
    EXPECT_EQ(static_cast<uint8_t>(right[i]), static_cast<uint8_t>(~wrong[i]));
}

TEST(Pattern, FindsAnyByteThatIsWrong) {
  const PatternKey key{5, 6, 44, 9};
  const std::string right = drawn(key, 44);
  EXPECT_FALSE(findWrong(key, 0, right.data(), 44));
  for (size_t at = 0; at < right.size(); ++at) {
    std::string wrong = right;
    wrong[at] ^= 4;
    const std::optional<WrongData> found = findWrong(key, 0, wrong.data(), 44);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->offset, static_cast<int64_t>(at));
    EXPECT_EQ(found->expected, static_cast<uint8_t>(right[at]));
    EXPECT_EQ(found->got, static_cast<uint8_t>(wrong[at]));
    EXPECT_EQ(found->bytes, 44);
    EXPECT_EQ(found->round, 9);
  }
  // The first of several; also in a part.
  std::string wrong = right;
  wrong[17] ^= 1;
  wrong[40] ^= 1;
  EXPECT_EQ(findWrong(key, 0, wrong.data(), 44)->offset, 17);
  EXPECT_EQ(findWrong(key, 24, wrong.data() + 24, 20)->offset, 40);
}

// -- Programs. --

struct Counts {
  int64_t copies = 0, signals = 0, awaits = 0, groups = 0;
  bool operator==(const Counts &) const = default;
};
std::ostream &operator<<(std::ostream &os, const Counts &counts) {
  return os << counts.copies << " copies, " << counts.signals << " signals, " << counts.awaits
            << " awaits, " << counts.groups << " groups";
}

Counts countsOf(const Plan &plan) {
  Counts counts;
  for (const braid::Command &command : plan.commands) {
    counts.copies += command.kind == CommandKind::Copy;
    counts.signals += command.kind == CommandKind::Signal;
    counts.awaits += command.kind == CommandKind::Await;
    counts.groups += command.kind == CommandKind::Group;
  }
  return counts;
}

std::vector<Plan> plansOf(int64_t ranks, Path path, int64_t count, const Moves &moves) {
  Result<std::vector<Plan>> plans =
      blockPlans({ranks, path, BlockShape::of(68, count), count}, moves);
  EXPECT_TRUE(plans.isOk()) << plans.status().message();
  return plans ? std::move(*plans) : std::vector<Plan>(static_cast<size_t>(ranks));
}

TEST(BlockPlans, OneWayAreALoopOfCopies) {
  const Moves there{Moves::Kind::OneWay, 0, 1, {}}, back{Moves::Kind::OneWay, 1, 0, {}};
  for (Path path : {Path::PutEngine, Path::GetKernel})
    for (const Moves &moves : {there, back}) {
      const std::vector<Plan> plans = plansOf(2, path, 5, moves);
      const auto copies = static_cast<size_t>(copyingRank(path, moves.source, moves.destination));
      EXPECT_EQ(countsOf(plans[copies]), (Counts{5, 1, 1, 0}));
      EXPECT_EQ(countsOf(plans[1 - copies]), (Counts{0, 1, 1, 0}));
      EXPECT_EQ(plans[copies].commands.front().kind, CommandKind::Await);
      EXPECT_EQ(plans[copies].commands.back().kind, CommandKind::Signal);
    }
}

TEST(BlockPlans, ThereAndBackSayOnlyWhatHasArrived) {
  const Moves moves{Moves::Kind::ThereAndBack, 0, 1, {}};
  std::vector<Plan> plans = plansOf(2, Path::PutEngine, 4, moves);
  // Each copy is announced, and rank 1 says that it is there.
  EXPECT_EQ(countsOf(plans[0]), (Counts{4, 4, 5, 0}));
  EXPECT_EQ(countsOf(plans[1]), (Counts{4, 5, 4, 0}));
  plans = plansOf(2, Path::GetEngine, 4, moves);
  EXPECT_EQ(countsOf(plans[0]), (Counts{4, 4, 4, 0}));
  EXPECT_EQ(countsOf(plans[1]), (Counts{4, 4, 4, 0}));
}

TEST(BlockPlans, TogetherAreAllButThoseThatAreLeftOut) {
  Moves moves{Moves::Kind::Together, 0, 1, {{0, 2}, {3, 0}}};
  const std::vector<Plan> plans = plansOf(4, Path::PutEngine, 2, moves);
  const int64_t sends[] = {2, 3, 3, 2}, receives[] = {2, 3, 2, 3};
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(countsOf(plans[rank]), (Counts{2 * sends[rank], sends[rank] + receives[rank],
                                             sends[rank] + receives[rank], 0}))
        << rank;
}

TEST(BlockPlans, MessagesAreGroups) {
  const std::vector<Plan> plans = plansOf(2, Path::Messages, 3, {Moves::Kind::OneWay, 0, 1, {}});
  for (const Plan &plan : plans)
    EXPECT_EQ(countsOf(plan), (Counts{0, 0, 0, 3}));
}

TEST(BlockShape, HasWholeBlocks) {
  for (int64_t bytes : {4, 252, 256, 260, 1 << 20, 1 << 30}) {
    const BlockShape shape = BlockShape::of(bytes, 64);
    EXPECT_GE(shape.stride, bytes);
    EXPECT_EQ(shape.stride % 256, 0);
    EXPECT_GE(shape.slots, 1);
    EXPECT_LE(shape.slots, 64);
    EXPECT_TRUE(shape.slots == 1 || shape.allBytes() <= 16 << 20);
  }
}

// -- What processes say. --

TEST(Measurement, IsReadAsItWasWritten) {
  for (const char *text :
       {"device 3 GPU-8f2a NVIDIA H200, driver for CUDA 13.0", "device 0 - ",
        "begin 3 5 put-engine 1048576", "bandwidth 3 5 get-kernel 4 381.25",
        "latency 3 5 messages 4 6.1", "wrong 3 5 host 16 2 7 17 255",
        "unavailable 3 5 put-kernel there is none", "together 0 1 host 4 0.5 17"}) {
    const Result<Measurement> line = Measurement::decode(text);
    ASSERT_TRUE(line.isOk()) << text;
    EXPECT_EQ(line->encode(), std::string(text) + "\n");
  }
  const Result<Measurement> wrong = Measurement::decode("wrong 3 5 host 16 2 7 17 255");
  EXPECT_EQ(wrong->wrong.bytes, 16);
  EXPECT_EQ(wrong->wrong.round, 2);
  EXPECT_EQ(wrong->wrong.offset, 7);
  EXPECT_EQ(wrong->wrong.expected, 17);
  EXPECT_EQ(wrong->wrong.got, 255);
}

TEST(Measurement, IsNothingElse) {
  for (const char *text :
       {"", "begin", "begin 3 5 put-engine", "begin 3 5 put-engine 4 4", "begin 3 5 putengine 4",
        "begin -3 5 put-engine 4", "begin 03 5 put-engine 4", "bandwidth 3 5 host 4 nan",
        "bandwidth 3 5 host 4 -1", "bandwidth 3 5 host 4 inf", "wrong 3 5 host 16 2 7 17 256",
        "end 3 5 host 4", "together 0 1 host 4 0.5", "begin 3  5 host 4",
        "begin 99999999999999999999 5 host 4"}) {
    const Result<Measurement> line = Measurement::decode(text);
    EXPECT_FALSE(line.isOk()) << text;
    EXPECT_NE(line.status().message().find("expected a measurement, got '"), std::string::npos);
  }
}

TEST(Measurement, KeepsTextsInOneLineThatAPipeTakesWhole) {
  Measurement line;
  line.kind = Measurement::Kind::Unavailable;
  line.text = "two\nlines" + std::string(10000, 'x');
  const std::string text = line.encode();
  EXPECT_EQ(llvm::count(text, '\n'), 1);
  EXPECT_LT(text.size(), 4096u);
}

MeasuringJob someJob() {
  MeasuringJob job;
  job.backend = "cpu";
  job.devices = {2, 5, 7};
  job.pairs = {{2, 5, Path::Host, {4, 64}}, {5, 2, Path::PutEngine, {}}};
  job.together = {{Path::GetKernel, 1024, {{5, 7}}}};
  return job;
}

TEST(MeasuringJob, IsReadAsItWasWritten) {
  const Result<MeasuringJob> again = MeasuringJob::decode(someJob().encode());
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(*again, someJob());
}

TEST(MeasuringJob, IsSensible) {
  auto expectRefused = [](auto spoil) {
    MeasuringJob job = someJob();
    spoil(job);
    EXPECT_FALSE(MeasuringJob::decode(job.encode()).isOk()) << job.encode();
  };
  expectRefused([](MeasuringJob &job) { job.pairs[0].source = 3; });
  expectRefused([](MeasuringJob &job) { job.pairs[0].source = 5; });
  expectRefused([](MeasuringJob &job) { job.pairs[0].sizes = {6}; });
  expectRefused([](MeasuringJob &job) { job.pairs[0].sizes = {64, 4}; });
  expectRefused([](MeasuringJob &job) { job.pairs[0].sizes = {int64_t(1) << 50}; });
  expectRefused([](MeasuringJob &job) { job.together[0].without[0].first = 1; });
  expectRefused([](MeasuringJob &job) { job.devices = {2}; });
  expectRefused([](MeasuringJob &job) { job.timeoutMs = 0; });
  EXPECT_FALSE(MeasuringJob::decode("{}").isOk());
  EXPECT_FALSE(MeasuringJob::decode("[]").isOk());
  EXPECT_FALSE(MeasuringJob::decode("{").isOk());
}

} // namespace
} // namespace braid::test
