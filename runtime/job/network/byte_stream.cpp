//===- runtime/job/network/byte_stream.cpp ----------------------------------------------------===//

#include "runtime/job/network/byte_stream.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/network/resolve.h"

#include "llvm/Support/Errno.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Each of several addresses has this long, so that a silent one does not keep us from the others.
constexpr milliseconds kForAddress{3000};
/// The time until addresses that refused are asked again.
constexpr milliseconds kBetweenTries{50};

/// An errno in place of a socket.
struct Tried {
  FileDescriptor socket;
  int error = 0;
};

Tried tryAddress(const SocketAddress &address, Deadline deadline) {
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
  if (!waitUntilReady(socket.get(), POLLOUT, std::min(deadline, Clock::now() + kForAddress)))
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
  std::vector<SocketAddress> addresses = BRAID_TRY(resolveWithin(host, port, deadline));
  for (int error = 0;;) {
    for (const SocketAddress &address : addresses) {
      Tried tried = tryAddress(address, deadline);
      if (tried.socket.isValid())
        return ByteStream(std::move(tried.socket), std::move(whose));
      if (error == 0 || tried.error != ETIMEDOUT) // one that the deadline cut off says nothing
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

Status ByteStream::write(std::string &bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !hasNothingNow())
      return peerFailed("expected {} to read, got: {}", whose_, llvm::sys::StrError(errno));
    bytes.erase(0, sent < 0 ? 0 : static_cast<size_t>(sent));
    if (sent < 0 && !waitUntilReady(socket_.get(), POLLOUT, deadline))
      return timedOut("{} did not read in time", whose_);
  }
  return Status::ok();
}

Status ByteStream::readMore(Deadline deadline) {
  char bytes[65536];
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
    if (!waitUntilReady(socket_.get(), POLLIN, deadline))
      return timedOut("{} did not answer in time", whose_);
  }
}

Result<std::string> ByteStream::peek(size_t bytes, Deadline deadline) {
  while (pending_.size() < bytes)
    BRAID_TRY(readMore(deadline));
  return pending_.substr(0, bytes);
}

Result<std::string> ByteStream::read(size_t bytes, Deadline deadline) {
  std::string taken = BRAID_TRY(peek(bytes, deadline));
  pending_.erase(0, bytes);
  return taken;
}

} // namespace braid
