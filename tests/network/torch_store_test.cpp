//===- tests/network/torch_store_test.cpp - torchrun's store, and servers that are none -------===//

#include "runtime/job/network/torch_store.h"
#include "tests/network/fake_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

namespace braid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A TCPStore, as far as it is used: what PyTorch's servers answer, written down anew.
class FakeTorchStore {
public:
  std::map<std::string, std::string> texts;
  bool isOver = false; ///< nobody is waited for any more
  std::mutex mutex;
  std::condition_variable changed;

  void serve(ByteStream &stream) {
    auto greeting = stream.read(5, soon());
    if (!greeting || *greeting != std::string("\x00\xce\xf7\x85\x3c", 5))
      return;
    while (auto query = stream.read(1, soon())) {
      const std::string key = (*query)[0] == 6 ? keyOfWait(stream) : text(stream);
      if ((*query)[0] == 1) {
        set(key, text(stream));
      } else if ((*query)[0] == 3) {
        std::lock_guard lock(mutex);
        (void)stream.write(number(texts.at(key).size()) + texts.at(key), soon());
      } else if ((*query)[0] == 6) {
        std::unique_lock lock(mutex);
        if (!changed.wait_until(lock, soon(), [&] { return isOver || texts.count(key) > 0; }) ||
            isOver)
          return;
        (void)stream.write(std::string(1, '\0'), soon());
      }
    }
  }
  void end() {
    std::lock_guard lock(mutex);
    isOver = true;
    changed.notify_all();
  }
  void set(const std::string &key, const std::string &value) {
    std::lock_guard lock(mutex);
    texts[key] = value;
    changed.notify_all();
  }

private:
  static std::string number(uint64_t value) {
    return {reinterpret_cast<const char *>(&value), sizeof value};
  }
  static std::string text(ByteStream &stream) {
    uint64_t bytes = 0;
    auto length = stream.read(sizeof bytes, soon());
    if (!length)
      return "";
    std::memcpy(&bytes, length->data(), sizeof bytes);
    auto read = stream.read(bytes, soon());
    return read ? *read : "";
  }
  static std::string keyOfWait(ByteStream &stream) {
    EXPECT_EQ(*stream.read(8, soon()), number(1));
    return text(stream);
  }
};

Environment environmentOf(const std::string &host, const std::string &port, bool isOfAgent) {
  std::map<std::string, std::string> variables = {{"MASTER_ADDR", host}, {"MASTER_PORT", port}};
  if (isOfAgent)
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  return [variables](const std::string &name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Place placeOf(int64_t rank) {
  return {.source = "torchrun", .rank = rank, .ranks = 2, .job = "torchrun MASTER_ADDR=x"};
}

Result<std::unique_ptr<LauncherStore>> openAt(uint16_t port, int64_t rank, Deadline deadline) {
  return openLauncherStore(placeOf(rank), environmentOf("127.0.0.1", std::to_string(port), true),
                           deadline);
}

TEST(TorchStore, GivesWhatWasPut) {
  FakeTorchStore fake;
  FakeServer server([&](ByteStream &stream) { fake.serve(stream); });
  auto putting = openAt(server.port(), 0, soon()), getting = openAt(server.port(), 1, soon());
  ASSERT_TRUE(putting && getting) << putting.status().message() << getting.status().message();
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE((*putting)->put("address", "tcp://[::1]:1", soon()).isOk());
    EXPECT_TRUE((*putting)->put("secret", std::string("\0\n %", 4), soon()).isOk());
  });
  EXPECT_EQ(*(*getting)->get("address", soon()), "tcp://[::1]:1"); // waits
  EXPECT_EQ(*(*getting)->get("secret", soon()), std::string("\0\n %", 4));
  later.join();
  EXPECT_THAT(fake.texts.begin()->first, testing::MatchesRegex("/braid/[0-9a-f]*/address"));
}

TEST(TorchStore, ANameHasAllItsAddressesTried) {
  FakeTorchStore fake;
  FakeServer server([&](ByteStream &stream) { fake.serve(stream); }); // not at ::1
  auto store = openLauncherStore(
      placeOf(0), environmentOf("localhost", std::to_string(server.port()), true), soon());
  ASSERT_TRUE(store) << store.status().message();
  EXPECT_TRUE((*store)->put("a", "b", soon()).isOk());
}

TEST(TorchStore, WaitsNoLongerThanItsDeadline) {
  FakeTorchStore fake;
  FakeServer server([&](ByteStream &stream) { fake.serve(stream); });
  auto store = openAt(server.port(), 1, soon());
  ASSERT_TRUE(store);
  auto got = (*store)->get("never", shortly());
  EXPECT_EQ(got.status().code(), StatusCode::TimedOut);
  EXPECT_THAT(got.status().message(), StartsWith("torchrun's store at 127.0.0.1:"));
  EXPECT_TRUE((*store)->put("other", "value", soon()).isOk()); // the store is still of use
  EXPECT_EQ(*(*store)->get("other", soon()), "value");
  fake.end();
}

TEST(TorchStore, NobodyThere) {
  uint16_t free = 0;
  {
    free = FakeServer([](ByteStream &) {}).port();
  }
  auto store = openAt(free, 0, shortly());
  EXPECT_EQ(store.status().code(), StatusCode::TimedOut);
  EXPECT_THAT(store.status().message(),
              StartsWith(fmt::format("expected torchrun's store at 127.0.0.1:{} to take a "
                                     "connection, got: ",
                                     free)));
  // Of a store that rank 0 itself would make, rank 0 does not wait for it; others do.
  const Environment none = environmentOf("127.0.0.1", std::to_string(free), false);
  store = openLauncherStore(placeOf(0), none, soon());
  EXPECT_EQ(store.status().code(), StatusCode::Unsupported);
  EXPECT_THAT(store.status().message(), HasSubstr("(TORCHELASTIC_USE_AGENT_STORE is not True)"));
  EXPECT_THAT(store.status().message(), HasSubstr("torch.distributed.init_process_group"));
  EXPECT_THAT(store.status().message(), HasSubstr("BRAID_RENDEZVOUS"));
  store = openLauncherStore(placeOf(1), none, shortly());
  EXPECT_EQ(store.status().code(), StatusCode::TimedOut);
}

TEST(TorchStore, WhatIsNoAddress) {
  auto opened = [](const std::string &host, const std::string &port) {
    return openLauncherStore(placeOf(0), environmentOf(host, port, true), soon())
        .status()
        .message();
  };
  EXPECT_EQ(opened("127.0.0.1", "port\x1b"), "expected MASTER_PORT to be a port, got 'port\\x1b'");
  EXPECT_EQ(opened("127.0.0.1", "0"), "expected MASTER_PORT to be a port, got '0'");
  EXPECT_THAT(opened("no host", "1"), StartsWith("expected a host with an address, got 'no host'"));
}

std::string answering(const std::string &bytes) {
  FakeServer server([&](ByteStream &stream) {
    (void)stream.write(bytes, soon());
    (void)stream.read(33, soon()); // greeting, WAIT and GET of a key of one letter
  });
  auto stream = ByteStream::connect("127.0.0.1", server.port(), "the store", false, soon());
  EXPECT_TRUE(stream) << stream.status().message();
  auto got = TorchStore::getOver(*stream, "k", soon());
  return got ? "got " + *got : got.status().message();
}

TEST(TorchStore, AnswersThatAreNone) {
  const std::string there(1, '\0');
  EXPECT_EQ(answering(there + std::string("\2\0\0\0\0\0\0\0", 8) + "ok"), "got ok");
  EXPECT_THAT(answering("\1"), StartsWith("expected the store to say that it has k, got '\\x01'"));
  EXPECT_THAT(answering("HTTP/1.1 400"), StartsWith("expected the store to say"));
  EXPECT_EQ(answering(there + std::string("\0\0\0\0\0\1\0\0", 8)), // 2^40
            "expected at most 256 bytes of the store, got 1099511627776");
  EXPECT_EQ(answering(there + std::string("\4\0\0", 3)),
            "expected an answer of the store, got the end of the connection");
}

TEST(TorchStore, EntriesAreBounded) {
  FakeTorchStore fake;
  FakeServer server([&](ByteStream &stream) { fake.serve(stream); });
  auto store = openAt(server.port(), 0, soon());
  ASSERT_TRUE(store);
  EXPECT_TRUE((*store)->put("a", std::string(256, 'x'), soon()).isOk());
  EXPECT_EQ((*store)->put("a", std::string(257, 'x'), soon()).message(),
            "expected at most 256 bytes for a launcher's store, got 257");
  EXPECT_THAT((*store)->put("a b", "", soon()).message(), StartsWith("expected a name of at most"));
  EXPECT_THAT((*store)->get("", soon()).status().message(), StartsWith("expected a name"));
}

} // namespace
} // namespace braid
