//===- tests/network/tcp_store_test.cpp - a store, its clients, and faulty peers --------------===//

#include "ir/failure.h"
#include "runtime/job/network/tcp_store.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <gmock/gmock.h>

#include <cstring>

#include <sys/socket.h>

namespace braid {
namespace {

using testing::HasSubstr;

std::unique_ptr<StoreServer> startServer(int64_t hosts = 99) {
  auto server = StoreServer::start({"127.0.0.1", 0}, hosts);
  EXPECT_TRUE(server.isOk()) << server.status().message();
  return std::move(*server);
}

std::unique_ptr<Store> storeAt(const StoreServer &server) {
  auto socket = connectTo(server.address(), "the store", soon());
  EXPECT_TRUE(socket.isOk()) << socket.status().message();
  return storeThrough(std::move(*socket), "the store");
}

/// Repeats a call that times out, as callers do, because on a loaded machine an answer may take
/// longer than the time limit of a call.
template <class Call> auto patiently(Call call) {
  for (const Deadline end = soon();;)
    if (auto result = call();
        result.status().code() != StatusCode::TimedOut || std::chrono::steady_clock::now() > end)
      return result;
}

std::optional<std::string> poll(Store &store, const std::string &key) {
  const auto value = patiently([&] { return store.poll(key); });
  EXPECT_TRUE(value.isOk()) << value.status().message();
  return value ? *value : std::nullopt;
}

std::string putIfAbsent(Store &store, const std::string &key, const std::string &value) {
  const auto there = patiently([&] { return store.putIfAbsent(key, value); });
  EXPECT_TRUE(there.isOk()) << there.status().message();
  return there ? *there : "";
}

TEST(TcpStore, GivesWhatWasPut) {
  const auto server = startServer();
  const auto one = storeAt(*server), other = storeAt(*server);
  EXPECT_EQ(poll(*one, "key"), std::nullopt);
  const std::string value("\0\n %\xff", 5), large(kMaxStoreValue, 'x');
  EXPECT_TRUE(one->put("key", value).isOk());
  EXPECT_EQ(poll(*one, "key"), value);
  EXPECT_EQ(poll(*other, "key"), value);
  EXPECT_TRUE(other->put("key", large).isOk());
  EXPECT_EQ(poll(*other, "key"), large);
  EXPECT_EQ(poll(*one, "key"), large);
  EXPECT_EQ(poll(*one, "another"), std::nullopt);
}

TEST(TcpStore, TheFirstToPutIsTheFirst) {
  const auto server = startServer();
  std::vector<std::string> there(8);
  onAllRanks(8, [&](int64_t rank) {
    const auto store = storeAt(*server);
    there[static_cast<size_t>(rank)] = putIfAbsent(*store, "first", std::to_string(rank));
  });
  EXPECT_THAT(there, testing::Each(there.front()));
  EXPECT_EQ(putIfAbsent(*storeAt(*server), "first", "late"), there.front());
}

/// A connection whose other end the test controls.
struct ByHand {
  ByHand() {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    server = FileDescriptor(both[1]);
    store = storeThrough(FileDescriptor(both[0]), "the store");
  }
  void say(const std::string &bytes) const {
    EXPECT_EQ(send(server.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  FileDescriptor server;
  std::unique_ptr<Store> store;
};

std::optional<std::string> said(const ByHand &hand, const std::string &key) {
  return poll(*hand.store, key);
}

/// Each call ends in time. A late answer is not mistaken for the answer to another request.
TEST(TcpStore, ALateAnswerIsHeardLater) {
  const ByHand hand;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(hand.store->poll("one").status().code(), StatusCode::TimedOut);
  EXPECT_EQ(hand.store->poll("one").status().code(), StatusCode::TimedOut);
  EXPECT_EQ(hand.store->poll("other").status().code(), StatusCode::TimedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
  hand.say(textOfStore("of one"));
  EXPECT_EQ(said(hand, "one"), "of one");
  EXPECT_EQ(hand.store->poll("other").status().code(), StatusCode::TimedOut);
  hand.say(textOfStore("of other"));
  EXPECT_EQ(said(hand, "other"), "of other");
  EXPECT_EQ(hand.store->poll("one").status().code(), StatusCode::TimedOut);
  hand.say(textOfStore("late") + textOfStore("of a third"));
  EXPECT_EQ(said(hand, "third"), "of a third");
  EXPECT_EQ(said(hand, "one"), "late");
}

TEST(TcpStore, AnswersThatAreNone) {
  const ByHand endless;
  endless.say(std::string("\0\0\0\0\0\1\0\0", 8)); // 2^40
  EXPECT_EQ(endless.store->poll("k").status().message(),
            "the store: expected a string of at most 4194304 bytes in the store, got 1099511627776 "
            "bytes");
  ByHand cut;
  cut.say(textOfStore("value").substr(0, 10));
  cut.server.reset();
  EXPECT_EQ(cut.store->poll("k").status().code(), StatusCode::PeerFailed);
  EXPECT_EQ(cut.store->put("k", "v").code(), StatusCode::PeerFailed);
}

TEST(TcpStore, AServerThatEndsIsGone) {
  auto server = startServer();
  const auto store = storeAt(*server);
  EXPECT_TRUE(store->put("k", "v").isOk());
  server.reset();
  EXPECT_EQ(patiently([&] { return store->poll("k"); }).status().code(), StatusCode::PeerFailed);
}

/// The server accepts connections until all hosts have made requests. A connection without requests
/// does not count as a host.
TEST(StoreServer, IsThereUntilAllHostsHaveCome) {
  const auto server = startServer(2);
  const auto silent = storeAt(*server), one = storeAt(*server), other = storeAt(*server);
  EXPECT_TRUE(one->put("k", "v").isOk());
  EXPECT_EQ(poll(*one, "k"), "v");
  EXPECT_TRUE(connectTo(server->address(), "the store", soon()).isOk());
  EXPECT_EQ(poll(*other, "k"), "v");
  EXPECT_TRUE(
      eventually([&] { return !connectTo(server->address(), "the store", soon()).isOk(); }));
  EXPECT_EQ(poll(*one, "k"), "v");
}

/// A connection with invalid bytes is closed, and other connections are served as before.
TEST(StoreServer, DropsStrangers) {
  const auto server = startServer();
  const auto store = storeAt(*server);
  for (const char *text : {"GET / HTTP/1.1\r\n\r\n", "\1\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    auto stranger = connectTo(server->address(), "it", soon());
    ASSERT_TRUE(stranger.isOk());
    EXPECT_GT(send(stranger->get(), text, strlen(text), 0), 0);
    char byte;
    EXPECT_TRUE(eventually([&] {
      const ssize_t got = recv(stranger->get(), &byte, 1, 0);
      return got == 0 || (got < 0 && !hasNothingNow());
    }));
  }
  EXPECT_EQ(putIfAbsent(*store, "k", "v"), "v");
}

TEST(StoreTable, TakesARequestAsAWhole) {
  StoreTable table;
  std::string answers;
  const std::string request = "\2" + textOfStore("key") + textOfStore("") + textOfStore("value");
  for (size_t size = 0; size < request.size(); ++size) {
    std::string some = request.substr(0, size);
    EXPECT_TRUE(table.serve(some, answers).isOk() && some.size() == size) << size;
  }
  EXPECT_EQ(answers, "");
  std::string all = request + "\2rest";
  EXPECT_TRUE(table.serve(all, answers).isOk());
  EXPECT_EQ(answers, textOfStore("value"));
  EXPECT_EQ(all, "\2rest");
}

} // namespace
} // namespace braid
