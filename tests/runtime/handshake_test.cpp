//===- tests/runtime/handshake_test.cpp - comparisons between ranks ---------------------------===//

#include "runtime/execute/handshake.h"

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
  const std::string head = R"(["7","p","1","m","w"])"
                           "\n";
  ASSERT_TRUE(Hello::decode(head, 0));
  ASSERT_TRUE(Hello::decode(head + "0 1 0 0 0 4 0 0 x\n", 0));
  for (const std::string &text : std::initializer_list<std::string>{
           "", "{}", R"(["7","p"])", R"(["6","p","1","m","w"])", R"(["7","p","-1","m","w"])",
           head + "1\n", head + "\n", head + "0 1 0 0 0 4 0\n", head + "2 1 0 0 0 4 0 0 x\n",
           head + "0 1 0 0 9 4 0 0 x\n", head + "0 1 -1 0 0 4 0 0 x\n",
           head + "0 99999999999999999999 0 0 0 4 0 0 x\n"}) {
    Result<Hello> decoded = Hello::decode(text, 0);
    ASSERT_FALSE(decoded.isOk()) << text;
    EXPECT_EQ(decoded.status().message(),
              "a rank sent a message in the format of a different version of Braid");
  }
}

TEST(Handshake, MatchesASendWithItsReceive) {
  std::vector<Hello> ranks = pair();
  auto other = matchingEndpoint(ranks, 0, ranks[0].endpoints[0]);
  ASSERT_TRUE(other.isOk());
  EXPECT_EQ(*other, &ranks[1].endpoints[0]);
  ranks[1].endpoints[0].bytes = 32;
  EXPECT_EQ(matchingEndpoint(ranks, 0, ranks[0].endpoints[0]).status().message(),
            "\"%s = p2p ...\" at a.braid:3:5 on rank 0 moves 16 bytes of f32, but the matching "
            "\"%s = p2p "
            "...\" at a.braid:3:5 on rank 1 moves 32 bytes of f32");
  ranks[1].endpoints.clear();
  EXPECT_EQ(matchingEndpoint(ranks, 0, ranks[0].endpoints[0]).status().message(),
            "\"%s = p2p ...\" at a.braid:3:5 on rank 0 has no matching receive on rank 1: expected "
            "at least 1 for this pair of ranks");
}

/// Returns ranks with these programs, one letter per rank; equal letters mean equal fingerprints.
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
  EXPECT_EQ(status.message(), "expected all ranks to run the same program, got different ones\n"
                              "  ranks 0 and 2-4: @p (000000000000000f)\n"
                              "  ranks 1 and 5: @q (0000000000000010)\n"
                              "  ranks 0 and 2-4, line 2: b\n"
                              "  ranks 1 and 5, line 2: c");
}

TEST(Handshake, ShowsThatOneProgramIsLonger) {
  EXPECT_EQ(programDifference(running("pq"), {"a\nb", "a"}).message(),
            "expected all ranks to run the same program, got different ones\n"
            "  rank 0: @p (000000000000000f)\n"
            "  rank 1: @q (0000000000000010)\n"
            "  rank 0, line 2: b\n"
            "  rank 1, line 2: (end of text)");
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
  for (const char *text : {"", "--seed", R"(["--seed"])", R"(["--seed","1","--iterations"])"})
    EXPECT_EQ(compareChoices({five, text}).message(),
              "expected all ranks to make the same call with the same version of Braid, but rank 1 "
              "did not")
        << text;
}

// If texts differ, the message shows the first line that differs and names the choice once.
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

} // namespace
} // namespace braid
