//===- tests/network/tcp_test.cpp - addresses, and listening on them --------------------------===//

#include "runtime/job/network/tcp.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

TcpListener listening(const std::string &host, uint16_t port = 0) {
  Result<TcpListener> listener = listenAt({host, port});
  EXPECT_TRUE(listener.isOk()) << listener.status().message();
  return listener ? std::move(*listener) : TcpListener();
}

/// Returns true if this machine has IPv6.
bool hasLoopback6() { return listenAt({"::1", 0}).isOk(); }

/// Connects to the listener, accepts the connection, and sends a text through it.
void meetAt(const TcpListener &listener) {
  auto socket = connectTo(listener.address, "it", soon());
  ASSERT_TRUE(socket.isOk()) << socket.status().message();
  FileDescriptor accepted;
  ASSERT_TRUE(eventually([&] { return (accepted = acceptFrom(listener.socket)).isValid(); }));
  EXPECT_EQ(send(socket->get(), "words", 5, 0), 5);
  char words[8] = {};
  EXPECT_TRUE(eventually([&] { return recv(accepted.get(), words, sizeof words, 0) == 5; }));
  EXPECT_STREQ(words, "words");
}

TEST(Tcp, AnyFreePortIsTaken) {
  const TcpListener one = listening("127.0.0.1"), other = listening("127.0.0.1");
  EXPECT_EQ(one.address.host, "127.0.0.1");
  EXPECT_NE(one.address.port, 0);
  EXPECT_NE(one.address.port, other.address.port);
  EXPECT_FALSE(acceptFrom(one.socket).isValid()) << "nobody is there, and it does not block";
  meetAt(one);
  meetAt(other);
}

TEST(Tcp, TheLoopbackOfIpv6IsAnAddress) {
  if (!hasLoopback6())
    GTEST_SKIP() << "no IPv6";
  const TcpListener listener = listening("::1");
  EXPECT_EQ(listener.address.host, "::1");
  EXPECT_EQ(textOf(listener.address).substr(0, 6), "[::1]:");
  meetAt(listener);
}

TEST(Tcp, APortIsFreeAtOnceAfterItsConnectionsHaveEnded) {
  TcpAddress address;
  {
    const TcpListener first = listening("127.0.0.1");
    address = first.address;
    meetAt(first);
  }
  EXPECT_EQ(listening(address.host, address.port).address.port, address.port);
}

TEST(Tcp, AnAddressOfAnotherMachineIsRefused) {
  const auto listener = listenAt({"192.0.2.1", 0}); // reserved for documentation
  ASSERT_FALSE(listener.isOk());
  EXPECT_EQ(listener.status().code(), StatusCode::BadInput);
  EXPECT_THAT(listener.status().message(),
              HasSubstr("cannot listen on 192.0.2.1:0: not an address of this host"));
}

TEST(Tcp, ANameWithoutAddressIsRefused) {
  for (const char *name : {"nobody.invalid", "", "127.0.0.1.1", "a b"}) {
    const auto listener = listenAt({name, 0});
    ASSERT_FALSE(listener.isOk()) << name;
    EXPECT_THAT(listener.status().message(), HasSubstr("cannot resolve host")) << name;
  }
}

TEST(Tcp, ANameIsTriedAtAllItsAddresses) {
  const TcpListener listener = listening("127.0.0.1");
  // localhost may first resolve to ::1, where no process listens.
  auto stream = connectTo({"localhost", listener.address.port}, "it", soon());
  EXPECT_TRUE(stream.isOk()) << stream.status().message();
}

TEST(Tcp, EveryAddressMeansThisHost) {
  const TcpListener listener = listening("0.0.0.0");
  auto stream = connectTo({"127.0.0.1", listener.address.port}, "it", soon());
  EXPECT_TRUE(stream.isOk()) << stream.status().message();
  const auto own = addressOfThisHost();
  if (!own)
    GTEST_SKIP() << own.status().message();
  EXPECT_TRUE(connectTo({*own, listener.address.port}, "it", soon()).isOk());
}

} // namespace
} // namespace braid
