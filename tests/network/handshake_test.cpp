//===- tests/network/handshake_test.cpp - who knows a secret, and who does not ----------------===//

#include "runtime/job/network/handshake.h"
#include "runtime/job/network/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

constexpr const char *kSecret = "a secret of some bytes", *kPurpose = "job and purpose";

ServerHandshake::Proved proved(ServerHandshake &server, llvm::StringRef answer) {
  auto result = server.feed(answer);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  EXPECT_TRUE(result && result->has_value());
  return result && *result ? std::move(**result) : ServerHandshake::Proved();
}

std::string rejection(ServerHandshake &server, llvm::StringRef answer) {
  const auto result = server.feed(answer);
  EXPECT_FALSE(result.isOk());
  EXPECT_TRUE(result.isOk() || result.status().code() == StatusCode::BadInput);
  return result.status().message();
}

TEST(Handshake, BothSidesKnowTheSecretAndHaveTheSameKeys) {
  ServerHandshake server(kSecret, kPurpose);
  ClientHandshake client(kSecret, kPurpose, 0xdeadbeef);
  EXPECT_EQ(server.challenge().size(), kChallengeBytes);
  const std::string answer = client.answer(server.challenge());
  EXPECT_EQ(answer.size(), kHandshakeAnswerBytes);
  const auto peer = proved(server, answer + "what follows");
  EXPECT_EQ(peer.number, 0xdeadbeef);
  EXPECT_EQ(peer.rest, "what follows");
  EXPECT_EQ(peer.proof.size(), kProofBytes);
  const auto keys = client.check(peer.proof);
  ASSERT_TRUE(keys.isOk()) << keys.status().message();
  EXPECT_EQ(keys->sends, peer.keys.receives);
  EXPECT_EQ(keys->receives, peer.keys.sends);
  EXPECT_NE(keys->sends, keys->receives);
  EXPECT_EQ(keys->sends.size(), 32u);
}

TEST(Handshake, NoTwoConnectionsHaveTheSameKeys) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) {
    ServerHandshake server(kSecret, kPurpose);
    ClientHandshake client(kSecret, kPurpose, 1);
    const auto peer = proved(server, client.answer(server.challenge()));
    keys.push_back(peer.keys.sends);
    keys.push_back(peer.keys.receives);
    keys.push_back(peer.proof);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST(Handshake, BytesComeOneByOne) {
  ServerHandshake server(kSecret, kPurpose);
  ClientHandshake client(kSecret, kPurpose, 7);
  const std::string answer = client.answer(server.challenge());
  for (size_t i = 0; i + 1 < answer.size(); ++i) {
    const auto result = server.feed(llvm::StringRef(answer).substr(i, 1));
    ASSERT_TRUE(result.isOk()) << i;
    ASSERT_FALSE(result->has_value()) << i;
    ASSERT_TRUE(server.feed("").isOk());
  }
  EXPECT_EQ(proved(server, llvm::StringRef(answer).take_back(1)).number, 7u);
}

TEST(Handshake, AnotherSecretIsNone) {
  for (const char *secret : {"a secret of some byteS", "", "a secret of some bytes "}) {
    ServerHandshake server(kSecret, kPurpose);
    ClientHandshake client(secret, kPurpose, 1);
    EXPECT_THAT(rejection(server, client.answer(server.challenge())),
                HasSubstr("got one that does not"));
  }
}

TEST(Handshake, AnotherPurposeIsNone) {
  ServerHandshake server(kSecret, kPurpose);
  ClientHandshake client(kSecret, "job and purposes", 1);
  EXPECT_THAT(rejection(server, client.answer(server.challenge())),
              HasSubstr("got one that does not"));
}

/// What was heard of one connection is of no use for another one.
TEST(Handshake, AnAnswerIsOfOneQuestion) {
  ServerHandshake first(kSecret, kPurpose), second(kSecret, kPurpose);
  ClientHandshake client(kSecret, kPurpose, 1);
  const std::string answer = client.answer(first.challenge());
  proved(first, answer);
  rejection(second, answer);
}

TEST(Handshake, NoByteOfAnAnswerCanBeChanged) {
  for (size_t i = 0; i < kHandshakeAnswerBytes; ++i) {
    ServerHandshake server(kSecret, kPurpose);
    ClientHandshake client(kSecret, kPurpose, 1);
    std::string answer = client.answer(server.challenge());
    answer[i] = static_cast<char>(answer[i] ^ 0x10);
    rejection(server, answer);
  }
}

TEST(Handshake, NoByteOfTheServersProofCanBeChanged) {
  ServerHandshake server(kSecret, kPurpose);
  ClientHandshake client(kSecret, kPurpose, 1);
  const std::string proof = proved(server, client.answer(server.challenge())).proof;
  for (size_t i = 0; i < proof.size(); ++i) {
    std::string changed = proof;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(client.check(changed).isOk()) << i;
  }
  EXPECT_FALSE(client.check("").isOk());
  EXPECT_FALSE(client.check(proof.substr(1)).isOk());
}

/// Whoever answers a client with what it has said itself, or with what another one has said, has
/// proved nothing.
TEST(Handshake, ProofsOfOneSideAreNoneOfTheOther) {
  ClientHandshake client(kSecret, kPurpose, 1), other(kSecret, kPurpose, 1);
  const std::string answer = client.answer(std::string(kChallengeBytes, 'x'));
  const std::string itsProof = answer.substr(kHandshakeAnswerBytes - kProofBytes);
  EXPECT_FALSE(client.check(itsProof).isOk());
  // As a question to the other one, the client's random bytes bring no proof of a server either.
  const std::string echoed = other.answer(llvm::StringRef(answer).substr(8, kChallengeBytes));
  EXPECT_FALSE(client.check(llvm::StringRef(echoed).take_back(kProofBytes)).isOk());
}

TEST(Handshake, GarbageIsRefusedAtItsFirstByte) {
  for (const char *text : {"GET / HTTP/1.1\r\n", "x", "braid002", "Braid001"}) {
    ServerHandshake server(kSecret, kPurpose);
    EXPECT_THAT(rejection(server, text), HasSubstr("expected a process of braid"));
    rejection(server, ""); // and stays so
    rejection(server, "braid001");
  }
}

/// It holds no more than an answer, and stays with its verdict.
TEST(Handshake, TooMuchChangesNothing) {
  ServerHandshake server(kSecret, kPurpose);
  rejection(server, "braid001" + std::string(1 << 20, 'x'));
  ClientHandshake client(kSecret, kPurpose, 1);
  rejection(server, client.answer(server.challenge()));
}

} // namespace
} // namespace braid
