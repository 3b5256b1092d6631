//===- tests/network/secure_stream_test.cpp - sealed bytes over a socket ----------------------===//

#include "runtime/job/network/host_link.h"
#include "runtime/job/network/secure_stream.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <gmock/gmock.h>

#include <random>

#include <sys/socket.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

const StreamKeys kOneSide{std::string(32, 'a'), std::string(32, 'b')};
const StreamKeys kOtherSide{kOneSide.receives, kOneSide.sends};

struct Sockets {
  explicit Sockets(int bufferBytes = 0) {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), 0);
    one = FileDescriptor(both[0]);
    other = FileDescriptor(both[1]);
    if (bufferBytes != 0)
      setsockopt(one.get(), SOL_SOCKET, SO_SNDBUF, &bufferBytes, sizeof bufferBytes);
  }
  FileDescriptor one, other;
};

std::string randomText(size_t bytes, unsigned seed) {
  std::mt19937 dice(seed);
  std::string text(bytes, '\0');
  for (char &c : text)
    c = static_cast<char>(dice());
  return text;
}

/// What is there now; "!" at its end for a failure.
std::string readNow(SecureStream &stream, size_t atOnce = 1000) {
  std::string text, place(atOnce, '\0');
  for (;;) {
    auto count = stream.read({place.data(), place.size()});
    if (!count)
      return text + "!";
    if (*count == 0)
      return text;
    text.append(place, 0, *count);
  }
}

TEST(SecureStream, WhatIsWrittenIsReadThoughBuffersAreSmall) {
  Sockets sockets(4096);
  SecureStream writer(std::move(sockets.one), kOneSide),
      reader(std::move(sockets.other), kOtherSide);
  const std::string text = randomText(1 << 20, 1);
  std::string got;
  bool wasFull = false;
  for (size_t written = 0; got.size() < text.size();) {
    auto taken = writer.write(llvm::StringRef(text).substr(written, 100000));
    ASSERT_TRUE(taken.isOk());
    wasFull |= *taken == 0 && writer.hasUnsent();
    written += *taken;
    got += readNow(reader, 777);
  }
  EXPECT_TRUE(got == text);
  EXPECT_TRUE(wasFull) << "what was to be tested";
  EXPECT_FALSE(writer.hasUnsent());
  EXPECT_FALSE(reader.hasUnread());
}

/// What has been taken is sent by flush() alone.
TEST(SecureStream, WhatWasTakenIsSentLater) {
  Sockets sockets(4096);
  SecureStream writer(std::move(sockets.one), kOneSide),
      reader(std::move(sockets.other), kOtherSide);
  const std::string text = randomText(kMaxRecordBytes, 2);
  const auto taken = writer.write(text);
  ASSERT_TRUE(taken.isOk());
  ASSERT_EQ(*taken, text.size());
  ASSERT_TRUE(writer.hasUnsent());
  std::string got;
  while (writer.hasUnsent()) {
    got += readNow(reader);
    ASSERT_TRUE(writer.flush().isOk());
  }
  EXPECT_TRUE(got + readNow(reader) == text);
}

TEST(SecureStream, WhatCameWithTheHandshakeIsReadFirst) {
  Sockets sockets;
  Sealer sealer(kOneSide.sends);
  std::string first, second;
  sealer.seal("first", first);
  sealer.seal("second", second);
  const std::string early = first + second.substr(0, 7);
  ASSERT_EQ(send(sockets.one.get(), second.data() + 7, second.size() - 7, 0),
            static_cast<ssize_t>(second.size() - 7));
  SecureStream reader(std::move(sockets.other), kOtherSide, early);
  EXPECT_TRUE(reader.hasUnread());
  EXPECT_EQ(readNow(reader), "firstsecond");
}

TEST(SecureStream, EndsAfterAllThatCameBefore) {
  Sockets sockets;
  SecureStream reader(std::move(sockets.other), kOtherSide);
  {
    SecureStream writer(std::move(sockets.one), kOneSide);
    ASSERT_TRUE(writer.write("the last words").isOk());
  }
  EXPECT_EQ(readNow(reader, 3), "the last words!");
  EXPECT_EQ(readNow(reader), "!") << "it stays so";
}

TEST(SecureStream, AnEndInTheMiddleOfARecordGivesNothingOfIt) {
  Sockets sockets;
  Sealer sealer(kOneSide.sends);
  std::string sealed;
  sealer.seal("whole", sealed);
  const size_t whole = sealed.size();
  sealer.seal("half", sealed);
  send(sockets.one.get(), sealed.data(), whole + 15, 0);
  sockets.one.reset();
  SecureStream reader(std::move(sockets.other), kOtherSide);
  EXPECT_EQ(readNow(reader), "whole!");
}

TEST(SecureStream, OtherBytesEndIt) {
  Sockets sockets;
  SecureStream reader(std::move(sockets.other), kOtherSide);
  ASSERT_EQ(send(sockets.one.get(), "GET / HTTP/1.1\r\n\r\n12345678", 26, 0), 26);
  char place[10];
  const auto got = reader.read({place, sizeof place});
  ASSERT_FALSE(got.isOk());
  EXPECT_EQ(got.status().code(), StatusCode::BadInput);
}

TEST(SecureStream, NobodyReadsWhatGoesToWhoIsGone) {
  Sockets sockets;
  sockets.other.reset();
  SecureStream writer(std::move(sockets.one), kOneSide);
  const auto written = writer.write("words"); // and no SIGPIPE
  ASSERT_FALSE(written.isOk());
  EXPECT_EQ(written.status().code(), StatusCode::PeerFailed);
}

// -- Frames. --

struct Links {
  explicit Links(int bufferBytes = 0)
      : sockets(bufferBytes), one(SecureStream(std::move(sockets.one), kOneSide)),
        other(SecureStream(std::move(sockets.other), kOtherSide)) {}
  Sockets sockets;
  HostLink one, other;
};

TEST(HostLinkTest, FramesComeWholeThoughTheOtherSideReadsSlowly) {
  Links links(4096);
  std::vector<Frame> sent;
  for (uint32_t i = 0; i < 20; ++i) {
    sent.push_back({.kind = FrameKind::HostGather,
                    .sequence = i,
                    .body = randomText(i % 4 == 0 ? 300000 : i, i)});
    links.one.send(sent.back());
  }
  EXPECT_TRUE(links.one.hasUnsent());
  std::vector<Frame> got;
  while (got.size() < sent.size()) {
    links.one.flush();
    ASSERT_TRUE(links.other.receive(got).isOk());
  }
  EXPECT_TRUE(got == sent);
  EXPECT_FALSE(links.one.hasUnsent());
}

/// Not quadratic in what waits.
TEST(HostLinkTest, MuchIsSentInATimeThatFits) {
  Links links;
  constexpr size_t kMuch = size_t(64) << 20;
  links.one.send({.kind = FrameKind::HostGathered, .body = std::string(kMuch, 'x')});
  std::vector<Frame> got;
  const auto start = std::chrono::steady_clock::now();
  while (got.empty()) {
    links.one.flush();
    ASSERT_TRUE(links.other.receive(got).isOk());
  }
  EXPECT_EQ(got.front().body.size(), kMuch);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(HostLinkTest, TheFirstFrameLeavesTheOthersWhereTheyAre) {
  Links links;
  auto first = links.other.receiveFirst();
  ASSERT_TRUE(first.isOk());
  EXPECT_FALSE(first->has_value());
  EXPECT_FALSE(links.other.hasUnread());
  links.one.send({.kind = FrameKind::HostWelcome});
  links.one.send({.kind = FrameKind::HostAbort, .body = "why"});
  first = links.other.receiveFirst();
  ASSERT_TRUE(first.isOk() && first->has_value());
  EXPECT_EQ((*first)->kind, FrameKind::HostWelcome);
  EXPECT_TRUE(links.other.hasUnread()) << "and no socket tells of it";
  std::vector<Frame> rest;
  ASSERT_TRUE(links.other.receive(rest).isOk());
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].body, "why");
  EXPECT_FALSE(links.other.hasUnread());
}

TEST(HostLinkTest, LastWordsComeBeforeTheEnd) {
  Links links;
  links.one.send({.kind = FrameKind::HostAbort, .body = "why"});
  { const HostLink gone = std::move(links.one); }
  std::vector<Frame> frames;
  EXPECT_EQ(links.other.receive(frames).code(), StatusCode::PeerFailed);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].body, "why");
}

TEST(HostLinkTest, BothSidesCanDisconnectAtOnce) {
  Links links(4096);
  const std::string much = randomText(1 << 20, 3);
  links.one.send({.kind = FrameKind::HostGather, .body = much});
  for (HostLink *link : {&links.one, &links.other})
    link->disconnect();
  EXPECT_FALSE(links.one.hasEnded()) << "the other side has not read all";
  bool hasOneEnded = false, hasOtherEnded = false;
  EXPECT_TRUE(eventually([&] {
    hasOneEnded |= links.one.hasEnded();
    hasOtherEnded |= links.other.hasEnded();
    return hasOneEnded && hasOtherEnded;
  }));
}

/// A failure must not make it keep what nobody will ever read.
TEST(HostLinkTest, NothingIsKeptForWhoIsGone) {
  Links links;
  { const HostLink gone = std::move(links.other); }
  for (int i = 0; i < 1000; ++i)
    links.one.send({.kind = FrameKind::HostSlots, .body = std::string(1 << 20, 'x')});
  std::vector<Frame> frames;
  EXPECT_EQ(links.one.receive(frames).code(), StatusCode::PeerFailed);
}

TEST(HostLinkTest, SilenceIsWhatNobodyHasSaid) {
  Links links;
  EXPECT_FALSE(links.other.isSilentFor(1h));
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(links.other.isSilentFor(10ms));
  // Who looks after a long time finds what came meanwhile.
  links.one.send({.kind = FrameKind::HostSlots});
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(links.other.isSilentFor(10ms));
}

TEST(HostLinkTest, WhatIsNoFrameEndsIt) {
  Sockets sockets;
  SecureStream writer(std::move(sockets.one), kOneSide);
  HostLink link(SecureStream(std::move(sockets.other), kOtherSide));
  ASSERT_TRUE(writer.write(encode({.kind = FrameKind::HostSlots})).isOk());
  ASSERT_TRUE(writer.write("this is sealed, and no frame at all").isOk());
  std::vector<Frame> frames;
  EXPECT_EQ(link.receive(frames).code(), StatusCode::BadInput);
  EXPECT_EQ(frames.size(), 1u);
}

/// As long as its bytes have not come, nothing is kept for a long frame.
TEST(HostLinkTest, AFrameThatIsTooLongEndsIt) {
  Sockets sockets;
  SecureStream writer(std::move(sockets.one), kOneSide);
  HostLink link(SecureStream(std::move(sockets.other), kOtherSide));
  std::string header = encode({.kind = FrameKind::HostGather}).substr(0, 12) + "\xff\xff\xff\xff";
  ASSERT_TRUE(writer.write(header).isOk());
  std::vector<Frame> frames;
  const Status status = link.receive(frames);
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_THAT(status.message(), HasSubstr("got 4294967295"));
}

} // namespace
} // namespace braid
