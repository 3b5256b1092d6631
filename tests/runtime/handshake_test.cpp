//===- tests/runtime/handshake_test.cpp - what ranks tell each other --------------------------===//

#include "runtime/handshake.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

PublishedEndpoint endpoint(Direction direction, int64_t peer, int64_t bytes = 16) {
  return {direction, peer, 0, 0, DType::F32, bytes, 64, 128, "\"%s = p2p ...\" at a.braid:3:5"};
}

std::vector<Hello> pair() {
  return {{"p", 7, "memory 0", {endpoint(Direction::Send, 1)}},
          {"p", 7, "memory 1", {endpoint(Direction::Receive, 0)}}};
}

TEST(Handshake, DecodesWhatItEncodes) {
  Hello hello = pair()[0];
  Result<Hello> decoded = Hello::decode(hello.encode());
  ASSERT_TRUE(decoded.isOk()) << decoded.status().message();
  EXPECT_EQ(decoded->encode(), hello.encode());
  EXPECT_EQ(decoded->endpoints[0].wordOffset, 64);
  EXPECT_EQ(decoded->endpoints[0].dataOffset, 128);
}

TEST(Handshake, RefusesOtherTexts) {
  for (const char *text :
       {"", "{}", "[]", "null", "{\"version\":2}", "{\"version\":1,\"program\":\"p\"}",
        "{\"version\":1,\"program\":\"p\",\"fingerprint\":1,\"memory\":\"m\",\"endpoints\":[1]}",
        "{\"version\":1,\"program\":\"p\",\"fingerprint\":-1,\"memory\":\"m\",\"endpoints\":[]}",
        "{\"version\":1,\"program\":\"p\",\"fingerprint\":1,\"memory\":\"m\",\"endpoints\":"
        "[[2,1,0,0,0,4,0,0,\"x\"]]}",
        "{\"version\":1,\"program\":\"p\",\"fingerprint\":1,\"memory\":\"m\",\"endpoints\":"
        "[[0,1,0,0,9,4,0,0,\"x\"]]}"}) {
    Result<Hello> decoded = Hello::decode(text);
    ASSERT_FALSE(decoded.isOk()) << text;
    EXPECT_EQ(decoded.status().message(), "a rank's message is not of this version's form");
  }
}

TEST(Handshake, MatchesASendWithItsReceive) {
  std::vector<Hello> ranks = pair();
  auto other = matchingEndpoint(ranks, 0, ranks[0].endpoints[0]);
  ASSERT_TRUE(other.isOk());
  EXPECT_EQ(*other, &ranks[1].endpoints[0]);
}

TEST(Handshake, NamesATransferWithoutItsOtherSide) {
  std::vector<Hello> ranks = pair();
  ranks[1].endpoints.clear();
  auto other = matchingEndpoint(ranks, 0, ranks[0].endpoints[0]);
  ASSERT_FALSE(other.isOk());
  EXPECT_EQ(other.status().message(),
            "\"%s = p2p ...\" at a.braid:3:5 on rank 0 meets no receive on rank 1: expected number "
            "1 of that pair");
}

TEST(Handshake, NamesBothSidesOfADifference) {
  std::vector<Hello> ranks = pair();
  ranks[1].endpoints[0].bytes = 32;
  auto other = matchingEndpoint(ranks, 0, ranks[0].endpoints[0]);
  ASSERT_FALSE(other.isOk());
  EXPECT_EQ(other.status().message(),
            "\"%s = p2p ...\" at a.braid:3:5 on rank 0 moves 16 bytes of f32, but meets \"%s = p2p "
            "...\" at a.braid:3:5 on rank 1, which moves 32 bytes of f32");
}

TEST(Handshake, NamesTheRanksThatRunDifferentPrograms) {
  std::vector<Hello> ranks = pair();
  EXPECT_TRUE(compareFingerprints(ranks).isOk());
  ranks[1].program = "q";
  ranks[1].fingerprint = 255;
  EXPECT_EQ(compareFingerprints(ranks).message(),
            "ranks run different programs: rank 0 has @p (0000000000000007), rank 1 has @q "
            "(00000000000000ff)");
}

} // namespace
} // namespace braid
