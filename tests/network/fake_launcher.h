//===- tests/network/fake_launcher.h - the other side of a launcher's store -------------------===//
#pragma once

#include "runtime/job/network/byte_stream.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include <arpa/inet.h>
#include <sys/socket.h>

namespace braid {

using namespace std::chrono_literals;

/// Far more than anything here takes on a loaded machine.
inline Deadline soon() { return deadlineIn(30s); }
/// For what is to run out of time.
inline Deadline shortly() { return deadlineIn(50ms); }

/// Two ends of a connection.
struct Ends {
  Ends() {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    mine = FileDescriptor(both[0]);
    other = FileDescriptor(both[1]);
  }
  FileDescriptor mine, other;
};

/// Takes connections at a port of the loopback interface, one after the other, and hands each to
/// `serve`, until it is destroyed.
class FakeServer {
public:
  using Serve = std::function<void(ByteStream &)>;
  explicit FakeServer(Serve serve) : serve_(std::move(serve)) {
    socket_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr *>(&address), size), 0);
    EXPECT_EQ(listen(socket_.get(), 16), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr *>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~FakeServer() {
    shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
    for (std::thread &connection : connections_)
      connection.join();
  }
  uint16_t port() const { return port_; }

private:
  void run() {
    for (;;) {
      FileDescriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.isValid())
        return;
      connections_.emplace_back([this, number = connection.release()] {
        ByteStream stream(FileDescriptor(number), "the client");
        serve_(stream);
      });
    }
  }

  Serve serve_;
  FileDescriptor socket_;
  uint16_t port_ = 0;
  std::vector<std::thread> connections_;
  std::thread thread_;
};

} // namespace braid
