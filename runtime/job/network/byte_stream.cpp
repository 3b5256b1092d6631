//===- runtime/job/network/byte_stream.cpp ----------------------------------------------------===//

#include "runtime/job/network/byte_stream.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long one of several addresses has, so that one that never answers keeps no one from another.
constexpr milliseconds kForAddress{3000};
/// How long until those that refused are asked again.
constexpr milliseconds kBetweenTries{50};

/// Waits for `events`, or an end. False at the deadline.
bool waitForEvents(int descriptor, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0)
      return false;
    pollfd entry{descriptor, events, 0};
    if (poll(&entry, 1, static_cast<int>(std::min<int64_t>(left.count(), 60000))) > 0)
      return true;
  }
}

bool hasNothingNow() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

struct Resolved {
  std::vector<Address> addresses;
  std::string failure; ///< why there are none
};

Resolved resolveNow(const std::string &host, uint16_t port) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo *list = nullptr;
  Resolved resolved;
  if (int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list)) {
    resolved.failure = gai_strerror(error);
    return resolved;
  }
  for (addrinfo *entry = list; entry; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage))
      continue;
    Address address;
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    resolved.addresses.push_back(address);
  }
  freeaddrinfo(list);
  return resolved;
}

/// A resolver knows no deadline, so it has a thread of its own, which is left behind if it is late.
Result<std::vector<Address>> resolveWithin(const std::string &host, uint16_t port,
                                           Deadline deadline) {
  auto answer = std::make_shared<std::promise<Resolved>>();
  std::future<Resolved> future = answer->get_future();
  std::thread thread;
  BRAID_TRY(
      startThread(thread, "resolving a name", [=] { answer->set_value(resolveNow(host, port)); }));
  thread.detach();
  if (future.wait_until(deadline) != std::future_status::ready)
    return timedOut("no address of '{}' was found in time", printable(host, 253));
  Resolved resolved = future.get();
  if (resolved.addresses.empty())
    return badInput("expected a host with an address, got '{}': {}", printable(host, 253),
                    resolved.failure);
  return std::move(resolved.addresses);
}

/// An errno in place of a socket.
struct Tried {
  FileDescriptor socket;
  int error = 0;
};

Tried tryAddress(const Address &address, Deadline deadline) {
  FileDescriptor socket(
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.isValid())
    return {{}, errno};
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address.bytes), address.size) ==
      0)
    return {std::move(socket)};
  if (errno != EINPROGRESS && errno != EINTR)
    return {{}, errno};
  if (!waitForEvents(socket.get(), POLLOUT, std::min(deadline, Clock::now() + kForAddress)))
    return {{}, ETIMEDOUT};
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0)
    return {{}, error};
  return {std::move(socket)};
}

} // namespace

Result<ByteStream> ByteStream::connect(const std::string &host, uint16_t port, std::string whose,
                                       bool isPatient, Deadline deadline) {
  std::vector<Address> addresses = BRAID_TRY(resolveWithin(host, port, deadline));
  for (int error = 0;;) {
    for (const Address &address : addresses) {
      Tried tried = tryAddress(address, deadline);
      if (tried.socket.isValid())
        return ByteStream(std::move(tried.socket), std::move(whose));
      error = tried.error;
      if (Clock::now() >= deadline)
        return timedOut("expected {} to take a connection, got: {}", whose,
                        llvm::sys::StrError(error));
    }
    if (!isPatient)
      return peerFailed("expected {} to take a connection, got: {}", whose,
                        llvm::sys::StrError(error));
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + kBetweenTries));
  }
}

Status ByteStream::write(llvm::StringRef bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !hasNothingNow())
      return peerFailed("expected {} to read, got: {}", whose_, llvm::sys::StrError(errno));
    bytes = bytes.drop_front(sent < 0 ? 0 : static_cast<size_t>(sent));
    if (sent < 0 && !waitForEvents(socket_.get(), POLLOUT, deadline))
      return timedOut("{} did not read in time", whose_);
  }
  return Status::ok();
}

Status ByteStream::readMore(Deadline deadline) {
  char bytes[4096];
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) {
      pending_.append(bytes, static_cast<size_t>(got));
      return Status::ok();
    }
    if (got == 0)
      return peerFailed("expected an answer of {}, got the end of the connection", whose_);
    if (!hasNothingNow())
      return peerFailed("expected an answer of {}, got: {}", whose_, llvm::sys::StrError(errno));
    if (!waitForEvents(socket_.get(), POLLIN, deadline))
      return timedOut("{} did not answer in time", whose_);
  }
}

Result<std::string> ByteStream::read(size_t bytes, Deadline deadline) {
  while (pending_.size() < bytes)
    BRAID_TRY(readMore(deadline));
  std::string taken = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  return taken;
}

Result<std::string> ByteStream::readLine(size_t limit, Deadline deadline) {
  for (;;) {
    const size_t end = pending_.find('\n');
    if (end >= limit && (end != std::string::npos || pending_.size() >= limit))
      return badInput("expected a line of less than {} bytes of {}, got '{}'", limit, whose_,
                      printable(pending_, 60));
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    BRAID_TRY(readMore(deadline));
  }
}

} // namespace braid
