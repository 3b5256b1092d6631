//===- tests/runtime/handshake_test.cpp - comparisons between ranks ---------------------------===//

#include "runtime/execute/handshake.h"

#include "api/compile/plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

PublishedEndpoint endpoint(Direction direction, int64_t peer, int64_t bytes = 16) {
  return {direction, peer, 0, 0, DType::F32, bytes, 64, 128, "\"%s = p2p ...\" at a.braid:3:5"};
}

std::vector<Hello> pair() {
  return {{"p", 7, "memory 0", "flags 0", {endpoint(Direction::Send, 1)}},
          {"p", 7, "memory 1", "flags 1", {endpoint(Direction::Receive, 0)}}};
}

TEST(Handshake, KeepsWhatMeetsTheReader) {
  Hello hello = pair()[0];
  hello.endpoints.push_back(endpoint(Direction::Receive, 2, 32));
  hello.endpoints.back().where = "two\nlines";
  EXPECT_EQ(Hello::decode(hello.encode(), 0)->endpoints.size(), 0u);
  Result<Hello> decoded = Hello::decode(hello.encode(), 2);
  ASSERT_TRUE(decoded.isOk()) << decoded.status().message();
  ASSERT_EQ(decoded->endpoints.size(), 1u);
  EXPECT_EQ(decoded->memory, hello.memory);
  EXPECT_EQ(decoded->endpoints[0].bytes, 32);
  EXPECT_EQ(decoded->endpoints[0].flagOffset, 64);
  EXPECT_EQ(decoded->endpoints[0].dataOffset, 128);
  EXPECT_EQ(decoded->endpoints[0].where, "two lines");
}

TEST(Handshake, RefusesOtherTexts) {
  const std::string head = "6\tp\t1\tm\tw\n";
  ASSERT_TRUE(Hello::decode(head, 0));
  ASSERT_TRUE(Hello::decode(head + "0 1 0 0 0 4 0 0 x\n", 0));
  for (const std::string &text : std::initializer_list<std::string>{
           "", "{}", "6\tp", "5\tp\t1\tm\tw\n", "6\tp\t-1\tm\tw\n", head + "1\n", head + "\n",
           head + "0 1 0 0 0 4 0\n", head + "2 1 0 0 0 4 0 0 x\n", head + "0 1 0 0 9 4 0 0 x\n",
           head + "0 1 -1 0 0 4 0 0 x\n", head + "0 99999999999999999999 0 0 0 4 0 0 x\n"}) {
    Result<Hello> decoded = Hello::decode(text, 0);
    ASSERT_FALSE(decoded.isOk()) << text;
    EXPECT_EQ(decoded.status().message(), "a rank's message is not of this version's form");
  }
}

TEST(Handshake, MatchesASendWithItsReceive) {
  std::vector<Hello> ranks = pair();
  auto other = matchingEndpoint(ranks, 0, ranks[0].endpoints[0]);
  ASSERT_TRUE(other.isOk());
  EXPECT_EQ(*other, &ranks[1].endpoints[0]);
  ranks[1].endpoints[0].bytes = 32;
  EXPECT_EQ(matchingEndpoint(ranks, 0, ranks[0].endpoints[0]).status().message(),
            "\"%s = p2p ...\" at a.braid:3:5 on rank 0 moves 16 bytes of f32, but meets \"%s = p2p "
            "...\" at a.braid:3:5 on rank 1, which moves 32 bytes of f32");
  ranks[1].endpoints.clear();
  EXPECT_EQ(matchingEndpoint(ranks, 0, ranks[0].endpoints[0]).status().message(),
            "\"%s = p2p ...\" at a.braid:3:5 on rank 0 meets no receive on rank 1: expected number "
            "1 of that pair");
}

/// Returns ranks with these programs, one letter per rank; equal letters are equal fingerprints.
std::vector<Hello> running(llvm::StringRef programs) {
  std::vector<Hello> ranks;
  for (char program : programs)
    ranks.push_back(
        {std::string(1, program), static_cast<uint64_t>(program - 'a'), "memory", "flags", {}});
  return ranks;
}

TEST(Handshake, ShowsWhereProgramsDiffer) {
  EXPECT_TRUE(haveSameProgram(running("ppp")));
  EXPECT_FALSE(haveSameProgram(running("ppq")));
  Status status = programDifference(running("pqpppq"),
                                    {"a {\n  b\n}\n", "a {\n  c\n  d\n}\n", "a {\n  b\n}\n",
                                     "a {\n  b\n}\n", "a {\n  b\n}\n", "a {\n  c\n  d\n}\n"});
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_EQ(status.message(), "expected all ranks to run one program, got several\n"
                              "  ranks 0 and 2-4: @p (000000000000000f)\n"
                              "  ranks 1 and 5: @q (0000000000000010)\n"
                              "  ranks 0 and 2-4, line 2: b\n"
                              "  ranks 1 and 5, line 2: c");
}

TEST(Handshake, ShowsThatOneProgramIsLonger) {
  EXPECT_EQ(programDifference(running("pq"), {"a\nb", "a"}).message(),
            "expected all ranks to run one program, got several\n"
            "  rank 0: @p (000000000000000f)\n"
            "  rank 1: @q (0000000000000010)\n"
            "  rank 0, line 2: b\n"
            "  rank 1, line 2: (the text has ended)");
}

TEST(Handshake, ComparesChoices) {
  std::string five = encodeChoices({{"--seed", "1"}, {"--iterations", "5"}});
  std::string six = encodeChoices({{"--seed", "1"}, {"--iterations", "6"}});
  EXPECT_TRUE(compareChoices({five, five}).isOk());
  Status status = compareChoices({five, six, five});
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_EQ(status.message(), "expected all ranks to have the same --iterations, got\n"
                              "  ranks 0 and 2: --iterations 5\n"
                              "  rank 1: --iterations 6");
  for (const char *text : {"", "--seed", "--seed\t1", "--seed\t1\t--iterations"})
    EXPECT_EQ(compareChoices({five, text}).message(),
              "expected all ranks to come to the same call of the same version, but rank 1 is in "
              "another")
        << text;
}

// If texts differ, the message shows the line that differs and names the choice once.
TEST(Handshake, ComparesChoicesThatAreTexts) {
  std::string first = encodeChoices({{"fusion", "fusion @f {\n  mesh [0 .. 2)\n}\n"}});
  std::string second = encodeChoices({{"fusion", "fusion @f {\n  mesh [0 .. 4)\n}\n"}});
  EXPECT_EQ(compareChoices({first, second}).message(),
            "expected all ranks to have the same fusion, got\n"
            "  rank 0, line 2: mesh [0 .. 2)\n"
            "  rank 1, line 2: mesh [0 .. 4)");
  EXPECT_EQ(compareChoices({first, encodeChoices({{"fusion", "none"}})}).message(),
            "expected all ranks to have the same fusion, got\n"
            "  rank 0, line 1: fusion @f {\n"
            "  rank 1, line 1: none");
}

/// Returns the list of collectives that each of two ranks publishes.
std::vector<std::string> publishedBy(const std::string &body, bool areInWindows = false) {
  std::unique_ptr<Source> source =
      parseSource("t.braid", "program @p mesh [0 .. 2) (%A: f32[4]) -> () {\n"
                             "  %x = allocate device f32[8]\n  %y = allocate device f32[4]\n" +
                                 body + "}\n");
  Result<Compiled> compiled = compile(*source, {.transport = Transport::Messages});
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  EXPECT_TRUE(plans.isOk()) << plans.status().message();
  std::vector<std::string> texts;
  for (const Plan &plan : *plans)
    texts.push_back(encodeCollectives(plan, areInWindows));
  return texts;
}

TEST(Handshake, FindsTheTeamsOfAllRanks) {
  const auto teams = compareCollectives(
      publishedBy("  %c = collective allgather %x, %A\n  wait %c\n"
                  "  %d = collective broadcast %y, %A team [1] root 1\n  wait %d\n"));
  ASSERT_TRUE(teams.isOk()) << teams.status().message();
  EXPECT_THAT(*teams, testing::ElementsAre(std::vector<int64_t>{0, 1}, std::vector<int64_t>{1}));
}

/// No verified program results in such Plans; the ranks compare their collectives anyway.
TEST(Handshake, NamesTheFirstCollectiveThatDiffers) {
  const std::string gather = "  %c = collective allgather %x, %A\n  wait %c\n";
  const std::string sum = "  %d = collective allreduce sum %y, %A\n  wait %d\n";
  const std::string one = publishedBy(gather + sum)[0], other = publishedBy(sum + gather)[1];
  EXPECT_EQ(compareCollectives({one, other}).status().message(),
            "expected the members of team [0, 1] to issue the same collectives in one order, got "
            "as number 0\n"
            "  rank 0: allgather of f32 from 16 to 32 bytes (\"%c = collective allgather %x, %A\" "
            "at t.braid:4:3)\n"
            "  rank 1: allreduce sum of f32 from 16 to 16 bytes (\"%d = collective allreduce sum "
            "%y, %A\" at t.braid:4:3)");
  EXPECT_THAT(
      compareCollectives({publishedBy(gather)[0], publishedBy(gather + sum)[1]}).status().message(),
      testing::HasSubstr("number 1\n  rank 0: none (its program)\n  rank 1: allreduce"));
  EXPECT_TRUE(compareCollectives({one, publishedBy(gather + sum)[1]}).isOk());
}

/// A library uses the offset of the local operand for those of the peers.
TEST(Handshake, InWindowsCollectivesLieAtOnePlace) {
  const std::string early =
      "  %s = slice %x[0 .. 4]\n  %c = collective allreduce sum %y, %s\n  wait %c\n";
  const std::string late =
      "  %s = slice %x[4 .. 8]\n  %c = collective allreduce sum %y, %s\n  wait %c\n";
  EXPECT_TRUE(compareCollectives({publishedBy(early)[0], publishedBy(late)[1]}).isOk());
  const std::string message =
      compareCollectives({publishedBy(early, true)[0], publishedBy(late, true)[1]})
          .status()
          .message();
  EXPECT_THAT(message, testing::HasSubstr("rank 0: allreduce sum of f32 from 16 to 16 bytes, in "
                                          "windows from byte 0 to byte 256 ("));
  EXPECT_THAT(message, testing::HasSubstr("rank 1: allreduce sum of f32 from 16 to 16 bytes, in "
                                          "windows from byte 16 to byte 256 ("));
}

TEST(Handshake, RefusesCollectivesOfAnotherForm) {
  for (const char *text : {"0 x\twhat\twhere\n", "x"})
    EXPECT_EQ(compareCollectives({text, ""}).status().message(),
              "a rank's message is not of this version's form")
        << text;
}

} // namespace
} // namespace braid
