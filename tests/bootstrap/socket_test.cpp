//===- tests/bootstrap/socket_test.cpp - frames and descriptors over a socket -----------------===//

#include "tests/bootstrap/bootstrap_test.h"
#include "tests/bootstrap/raw_socket.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace braid {
namespace {

/// Both ends of a connection.
struct Pair {
  explicit Pair(size_t maxBody = kMaxBody) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    left.emplace(FileDescriptor(ends[0]), maxBody);
    right.emplace(FileDescriptor(ends[1]), maxBody);
  }
  std::optional<Connection> left, right;
};

FileDescriptor memoryWith(const std::string &text) {
  FileDescriptor memory(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(memory.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return memory;
}

std::string textIn(const FileDescriptor &memory) {
  char text[64];
  ssize_t got = pread(memory.get(), text, sizeof text, 0);
  return got < 0 ? "nothing" : std::string(text, static_cast<size_t>(got));
}

TEST(Connection, PassesFramesInOrder) {
  Pair pair;
  std::string large(size_t(5) << 20, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(pair.left->send({.kind = FrameKind::Gather, .body = large}, soon()).isOk());
    EXPECT_TRUE(pair.left->send({.kind = FrameKind::Disconnect}, soon()).isOk());
  });
  auto first = pair.right->receive(soon());
  auto second = pair.right->receive(soon());
  sender.join();
  ASSERT_TRUE(first.isOk() && second.isOk());
  EXPECT_EQ(first->frame.body, large);
  EXPECT_EQ(second->frame.kind, FrameKind::Disconnect);
}

TEST(Connection, PassesEachDescriptorWithItsFrame) {
  size_t before = countDescriptors();
  {
    Pair pair;
    auto send = [&](const std::string &name, bool withDescriptor) {
      FileDescriptor memory = memoryWith("memory of " + name);
      Frame frame{.kind = FrameKind::Offer, .hasDescriptor = withDescriptor, .body = name};
      EXPECT_TRUE(pair.left->send(frame, soon(), withDescriptor ? memory.get() : -1).isOk());
    };
    for (int i = 0; i < 50; ++i)
      send(std::to_string(i), i % 3 != 0);
    for (int i = 0; i < 50; ++i) {
      auto received = pair.right->receive(soon());
      ASSERT_TRUE(received.isOk()) << received.status().message();
      EXPECT_EQ(received->frame.body, std::to_string(i));
      ASSERT_EQ(received->descriptor.isValid(), i % 3 != 0);
      if (received->descriptor.isValid()) {
        EXPECT_EQ(textIn(received->descriptor), "memory of " + std::to_string(i));
        EXPECT_EQ(fcntl(received->descriptor.get(), F_GETFD), FD_CLOEXEC);
      }
    }
  }
  EXPECT_EQ(countDescriptors(), before);
}

/// What the receiver says to `bytes` and `count` descriptors; none of them may stay open.
std::string complaintAbout(const std::string &bytes, size_t count) {
  size_t before = countDescriptors();
  std::string message;
  {
    Pair pair;
    FileDescriptor memory = memoryWith("x");
    size_t open = countDescriptors();
    EXPECT_TRUE(sendRaw(pair.left->descriptor(), bytes, std::vector(count, memory.get())));
    auto received = pair.right->receive(soon());
    EXPECT_EQ(received.status().code(), StatusCode::BadInput);
    message = received.status().message();
    EXPECT_EQ(countDescriptors(), open);
    EXPECT_EQ(pair.right->receive(soon()).status().message(), message) << "stays failed";
  }
  EXPECT_EQ(countDescriptors(), before);
  return message;
}

TEST(Connection, TakesExactlyOneDescriptorThatWasAnnounced) {
  std::string announced = encode({.kind = FrameKind::Offer, .hasDescriptor = true});
  std::string other = encode({.kind = FrameKind::Offer});
  const char *more = "expected one descriptor with a message, got more, or had no room for it";
  EXPECT_EQ(complaintAbout(announced, 0), "expected a descriptor with a message, got none");
  EXPECT_EQ(complaintAbout(announced, 2), more);
  EXPECT_EQ(complaintAbout(announced, 3), more); // does not fit: truncated by the kernel
  EXPECT_EQ(complaintAbout(announced, 20), more);
  EXPECT_EQ(complaintAbout(other, 1), "expected no descriptor with a message, got one");
}

TEST(Connection, ClosesDescriptorsThatPileUpInsideAFrame) {
  Pair pair;
  FileDescriptor memory = memoryWith("x");
  size_t open = countDescriptors();
  std::string bytes = encode({.kind = FrameKind::Offer, .hasDescriptor = true, .body = "abc"});
  for (char byte : bytes.substr(0, 3))
    ASSERT_TRUE(sendRaw(pair.left->descriptor(), llvm::StringRef(&byte, 1), {memory.get()}));
  EXPECT_EQ(pair.right->receive(soon()).status().code(), StatusCode::BadInput);
  EXPECT_EQ(countDescriptors(), open);
}

TEST(Connection, TellsAnEndFromACut) {
  for (size_t missing : {0, 1, 10}) {
    Pair pair;
    std::string bytes = encode({.kind = FrameKind::Gather, .body = "abc"});
    ASSERT_TRUE(sendRaw(pair.left->descriptor(), bytes.substr(0, bytes.size() - missing)));
    pair.left.reset();
    std::vector<Received> frames;
    bool wasInside = false;
    Status status = pair.right->receiveAvailable(frames, &wasInside);
    EXPECT_EQ(status.code(), StatusCode::PeerFailed);
    EXPECT_EQ(wasInside, missing > 0);
    EXPECT_EQ(frames.size(), missing > 0 ? 0u : 1u);
  }
}

TEST(Connection, EndsItsWaits) {
  Pair pair;
  EXPECT_EQ(pair.left->receive(deadlineIn(1ms)).status().code(), StatusCode::TimedOut);
  Frame large{.kind = FrameKind::Gather, .body = std::string(size_t(8) << 20, 'x')};
  EXPECT_EQ(pair.left->send(large, deadlineIn(1ms)).code(), StatusCode::TimedOut);
  pair.right.reset();
  EXPECT_EQ(pair.left->send({.kind = FrameKind::Disconnect}, soon()).code(),
            StatusCode::PeerFailed);
}

TEST(Deadline, OfAnyTimeIsInOrder) {
  const Deadline now = std::chrono::steady_clock::now();
  EXPECT_LE(deadlineIn(std::chrono::milliseconds::min()), deadlineIn(1ms));
  EXPECT_GT(deadlineIn(std::chrono::milliseconds::max()), now + 24h * 365);
  EXPECT_GT(deadlineIn(9999999999999ms), now + 24h * 365);
}

TEST(Connection, KnowsWhoIsThere) {
  Pair pair;
  auto peer = pair.left->peer();
  ASSERT_TRUE(peer.isOk());
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(peer->uid, geteuid());
}

TEST(Connection, SaysWhyItCannotBeMade) {
  TemporaryBase base;
  auto messageOf = [](const std::string &path) {
    auto connection = Connection::connect(path, soon(), kMaxBody);
    return connection.status().message();
  };
  std::string path = base.path() + "/nobody";
  EXPECT_EQ(messageOf(path),
            "expected somebody to listen at '" + path + "', got: No such file or directory");
  std::string longPath(200, 'x');
  EXPECT_EQ(messageOf(longPath),
            "expected the path of a socket of at most 107 bytes, got '" + longPath + "'");
}

} // namespace
} // namespace braid
