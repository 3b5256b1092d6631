//===- tests/pairs/blocks_test.cpp - bytes of blocks, and programs that move them -------------===//

#include "api/pairs/block_run.h"
#include "api/pairs/blocks.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <set>

namespace braid::test {
namespace {

std::string drawn(uint64_t seed, int64_t bytes, Drawn what = Drawn::Bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  drawBytes(seed, what, 0, text.data(), bytes);
  return text;
}

TEST(Blocks, HaveBytesThatDoNotRepeat) {
  std::set<std::string> words;
  for (uint64_t seed : {0, 1, 2}) {
    const std::string text = drawn(seed, 1 << 16);
    for (size_t at = 0; at < text.size(); at += 8)
      words.insert(text.substr(at, 8));
  }
  EXPECT_EQ(words.size(), size_t(3) << 13);
}

TEST(Blocks, AreTheSameInParts) {
  std::string parts(1000, '\0');
  drawBytes(7, Drawn::Bytes, 0, parts.data(), 400);
  drawBytes(7, Drawn::Bytes, 400, parts.data() + 400, 600);
  EXPECT_EQ(parts, drawn(7, 1000));
}

TEST(Blocks, AnyByteThatIsWrongIsFound) {
  const std::string right = drawn(9, 44), complement = drawn(9, 44, Drawn::Complement);
  EXPECT_EQ(firstWrong(9, 0, right.data(), 44), 44);
  for (size_t at = 0; at < right.size(); ++at) {
    EXPECT_EQ(static_cast<uint8_t>(right[at]), static_cast<uint8_t>(~complement[at]));
    std::string wrong = right;
    wrong[at] ^= 4;
    EXPECT_EQ(firstWrong(9, 0, wrong.data(), 44), static_cast<int64_t>(at));
  }
  // The first of several; also in a part.
  std::string wrong = right;
  wrong[17] ^= 1;
  wrong[40] ^= 1;
  EXPECT_EQ(firstWrong(9, 0, wrong.data(), 44), 17);
  EXPECT_EQ(firstWrong(9, 24, wrong.data() + 24, 20), 16);
}

// -- Programs. --

using Counts = std::array<int64_t, 4>; ///< copies, signals, awaits, groups

Counts countsOf(const Plan &plan) {
  Counts counts{};
  for (const Command &command : plan.commands) {
    counts[0] += command.kind == CommandKind::Copy;
    counts[1] += command.kind == CommandKind::Signal;
    counts[2] += command.kind == CommandKind::Await;
    counts[3] += command.kind == CommandKind::Group;
  }
  return counts;
}

TEST(BlockPlans, HaveTheSignalsThatTheyNeed) {
  struct Case {
    const char *name;
    Path path;
    int64_t source;
    bool andBack;
    Counts first, second;
  };
  const Case cases[] = {
      {"a put is a loop of copies", Path::PutEngine, 0, false, {5, 1, 1, 0}, {0, 1, 1, 0}},
      {"from the other rank, too", Path::PutKernel, 1, false, {0, 1, 1, 0}, {5, 1, 1, 0}},
      {"a get copies at the destination", Path::GetEngine, 0, false, {0, 1, 1, 0}, {5, 1, 1, 0}},
      {"each put is announced", Path::PutEngine, 0, true, {5, 5, 6, 0}, {5, 6, 5, 0}},
      {"each get is allowed", Path::GetEngine, 0, true, {5, 5, 5, 0}, {5, 5, 5, 0}},
      {"messages are groups", Path::Messages, 0, false, {0, 0, 0, 5}, {0, 0, 0, 5}},
  };
  for (const Case &each : cases) {
    const Result<std::vector<Plan>> plans =
        blockPlans({each.path, each.source, each.andBack, /*bytes=*/68, /*slots=*/2, /*count=*/5});
    ASSERT_TRUE(plans.isOk()) << each.name << ": " << plans.status().message();
    EXPECT_EQ(countsOf((*plans)[0]), each.first) << each.name;
    EXPECT_EQ(countsOf((*plans)[1]), each.second) << each.name;
  }
}

} // namespace
} // namespace braid::test
