//===- tests/bootstrap/frame_test.cpp - messages as bytes -------------------------------------===//

#include "runtime/job/bootstrap/client.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

std::vector<Frame> someFrames() {
  return {{.kind = FrameKind::Hello, .body = "a body"},
          {.kind = FrameKind::Disconnect},
          {.kind = FrameKind::Offer, .hasDescriptor = true, .sequence = 0x81020304u},
          {.kind = FrameKind::Gathered, .sequence = ~0u, .body = std::string(70000, '\0')}};
}

std::string encodeAll(const std::vector<Frame> &frames) {
  std::string bytes;
  for (const Frame &frame : frames)
    bytes += encode(frame);
  return bytes;
}

/// Everything that a decoder gives out for `bytes`, fed in pieces of `step`.
std::vector<Frame> decode(const std::string &bytes, size_t step, Status &status,
                          size_t maxBody = kMaxBody) {
  FrameDecoder decoder(maxBody);
  std::vector<Frame> frames;
  for (size_t i = 0; i < bytes.size(); i += step) {
    status = decoder.feed(llvm::StringRef(bytes).substr(i, step));
    while (std::optional<Frame> frame = decoder.next())
      frames.push_back(std::move(*frame));
  }
  return frames;
}

std::string messageFor(std::string bytes, size_t maxBody = kMaxBody) {
  Status status;
  EXPECT_TRUE(decode(bytes, bytes.size(), status, maxBody).empty());
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  return status.message();
}

TEST(Frame, HasThisLayout) {
  Frame frame{.kind = FrameKind::Want, .hasDescriptor = true, .sequence = 0x01020304, .body = "xy"};
  EXPECT_EQ(encode(frame), std::string("brd1\x07\x01\0\0\x04\x03\x02\x01\x02\0\0\0xy", 18));
}

TEST(Frame, ComesOutAsItWentInHoweverItIsSplit) {
  std::string bytes = encodeAll(someFrames());
  for (size_t step :
       {size_t(1), size_t(2), size_t(7), size_t(16), size_t(17), size_t(4096), bytes.size()}) {
    Status status;
    EXPECT_EQ(decode(bytes, step, status), someFrames()) << "in pieces of " << step;
    EXPECT_TRUE(status.isOk());
  }
}

TEST(Frame, KnowsWhetherItsEndIsMissing) {
  std::string bytes = encode({.kind = FrameKind::Gather, .body = "abc"});
  FrameDecoder decoder(kMaxBody);
  EXPECT_FALSE(decoder.isInside());
  for (char byte : llvm::StringRef(bytes).drop_back()) {
    ASSERT_TRUE(decoder.feed(llvm::StringRef(&byte, 1)).isOk());
    EXPECT_TRUE(decoder.isInside());
    EXPECT_FALSE(decoder.next());
  }
  ASSERT_TRUE(decoder.feed(bytes.substr(bytes.size() - 1)).isOk());
  EXPECT_FALSE(decoder.isInside());
  EXPECT_TRUE(decoder.next());
}

TEST(Frame, RefusesWhatIsNone) {
  const std::string good = encode({.kind = FrameKind::Hello});
  auto with = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return messageFor(bytes);
  };
  EXPECT_EQ(messageFor("GET / HTTP/1.1\r\n\r\n"), "expected a message, got other bytes");
  EXPECT_EQ(with(3, '2'), "expected a message of version 1, got one of another version");
  EXPECT_EQ(with(4, 0), "expected a kind of message from 1 to 10, got 0");
  EXPECT_EQ(with(4, 19), "expected a kind of message from 1 to 10, got 19");
  EXPECT_EQ(with(5, 2), "expected a header with zeros where nothing is defined, got other bytes");
  EXPECT_EQ(with(7, 1), "expected a header with zeros where nothing is defined, got other bytes");
  EXPECT_EQ(messageFor(encode({.kind = FrameKind::Hello, .body = "12345"}), 4),
            "expected a message of at most 4 bytes, got 5");
}

TEST(Frame, OfGreatLengthIsRefusedByItsHeader) {
  std::string header = encode({.kind = FrameKind::Hello});
  header.replace(12, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(messageFor(header), "expected a message of at most 268435456 bytes, got 4294967295");
}

TEST(Frame, GivesOutWhatCameBeforeAFailureAndNothingAfter) {
  std::string bytes = encodeAll(someFrames()) + std::string(16, 'x') + encodeAll(someFrames());
  for (size_t step : {size_t(1), size_t(100), bytes.size()}) {
    Status status;
    EXPECT_EQ(decode(bytes, step, status), someFrames());
    EXPECT_EQ(status.code(), StatusCode::BadInput);
  }
}

TEST(Frame, TakesANewLimitForTheNextHeader) {
  FrameDecoder decoder(2);
  std::string bytes = encode({.kind = FrameKind::Gather, .body = "abc"});
  decoder.setMaxBody(3);
  EXPECT_TRUE(decoder.feed(bytes).isOk());
  EXPECT_TRUE(decoder.next());
  decoder.setMaxBody(2);
  EXPECT_FALSE(decoder.feed(bytes).isOk());
}

TEST(Parts, ComeOutAsTheyWentIn) {
  using Parts = std::vector<std::string>;
  for (const Parts &parts : {Parts{}, Parts{""}, Parts{"", "a", std::string(1000, '\0'), ""}}) {
    auto again = decodeParts(encodeParts(parts));
    ASSERT_TRUE(again.isOk()) << again.status().message();
    EXPECT_EQ(*again, parts);
  }
}

TEST(Parts, AreRefusedIfCutOffOrTooLong) {
  std::string body = encodeParts({"abc", "", "de"});
  for (size_t length = 0; length < body.size(); ++length)
    EXPECT_EQ(decodeParts(body.substr(0, length)).status().code(), StatusCode::BadInput) << length;
  EXPECT_EQ(decodeParts(body + "x").status().code(), StatusCode::BadInput);
  EXPECT_EQ(decodeParts(std::string(8, '\xff')).status().message(),
            "expected 4294967295 lengths of parts, got the end of the message");
}

TEST(ClientHello, ComesOutAsItWentIn) {
  ClientHello hello{.job = std::string("a\0b", 3), .rank = 5, .ranks = 8};
  auto again = ClientHello::decode(hello.encode());
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(again->job, hello.job);
  EXPECT_EQ(again->rank, 5);
  EXPECT_EQ(again->ranks, 8);
}

TEST(ClientHello, IsRefusedIfItMakesNoSense) {
  auto messageOf = [](const std::string &body) {
    return ClientHello::decode(body).status().message();
  };
  std::string good = ClientHello{.job = "", .rank = 0, .ranks = 1}.encode();
  std::string newer = good;
  newer[0] = 2;
  EXPECT_EQ(messageOf(newer), "expected version 1 of the protocol, got 2");
  EXPECT_EQ(messageOf("abc"), "expected a version, got the end of the message");
  EXPECT_EQ(messageOf(good.substr(0, good.size() - 1)),
            "expected a rank and a number of ranks, got the end of the message");
  EXPECT_EQ(messageOf(ClientHello{.job = "", .rank = 3, .ranks = 3}.encode()),
            "expected a rank below the number of ranks, got rank 3 of 3");
  EXPECT_EQ(messageOf(ClientHello{.job = "", .rank = -1, .ranks = 3}.encode()),
            "expected a rank below the number of ranks, got rank -1 of 3");
  EXPECT_EQ(messageOf(ClientHello{.job = std::string(kMaxJobBytes + 1, 'x')}.encode()),
            "expected the key of a job of at most 2048 bytes, got a longer one");
}

} // namespace
} // namespace braid
