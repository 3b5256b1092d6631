//===- runtime/job/bootstrap/socket.cpp -------------------------------------------------------===//
#include "runtime/job/bootstrap/socket.h"

#include "ir/failure.h"

#include "llvm/Support/Errno.h"

#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace braid {

namespace {
Status systemError(const std::string &what) {
  return internalError("{}: {}", what, llvm::sys::StrError(errno));
}

FileDescriptor makeSocket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// An abstract name starts with a zero byte and is terminated only by its length.
struct AbstractName {
  explicit AbstractName(const std::string &name) {
    assert(name.size() < sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address); }
  sockaddr_un address{};
  socklen_t size;
};

/// Returns the descriptor in the control data of `message`, or an invalid one if there is none.
FileDescriptor takeDescriptor(msghdr &message) {
  const cmsghdr *part = CMSG_FIRSTHDR(&message);
  if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
    return FileDescriptor();
  int number;
  std::memcpy(&number, CMSG_DATA(part), sizeof number);
  return FileDescriptor(number);
}
} // namespace

Status checkTimeLimit(std::chrono::milliseconds time) {
  return time.count() >= 1
             ? Status::ok()
             : badInput("expected a time limit of at least 1 ms, got {} ms", time.count());
}

bool waitUntilReady(int descriptor, short events, Deadline deadline) {
  while (true) {
    auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return false;
    pollfd entry{descriptor, events, 0};
    int slice = static_cast<int>(std::min<int64_t>(left.count(), 60000));
    if (poll(&entry, 1, slice) > 0)
      return true;
  }
}

bool hasNothingNow() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

FileDescriptor &FileDescriptor::operator=(FileDescriptor &&other) noexcept {
  const int number = other.release();
  reset();
  number_ = number;
  return *this;
}

void FileDescriptor::reset() {
  if (isValid())
    ::close(release());
}

void Unmap::operator()(void *address) const { munmap(address, bytes); }

SharedMapping mapShared(const FileDescriptor &file, size_t bytes) {
  void *address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return {address == MAP_FAILED ? nullptr : address, Unmap{bytes}};
}

FileDescriptor acceptFrom(const FileDescriptor &listener) {
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

Result<FileDescriptor> Connection::listenAt(const std::string &name) {
  const AbstractName address(name);
  FileDescriptor socket = makeSocket();
  if (socket.isValid() && bind(socket.get(), address.get(), address.size) != 0 &&
      errno == EADDRINUSE)
    return FileDescriptor();
  if (!socket.isValid() || listen(socket.get(), SOMAXCONN) != 0)
    return unsupported("cannot listen on '@{}': {}", name, llvm::sys::StrError(errno));
  return socket;
}

Result<Connection> Connection::connect(const std::string &name, Deadline deadline) {
  const AbstractName address(name);
  FileDescriptor socket = makeSocket();
  if (!socket.isValid())
    return systemError("cannot create a socket");
  while (::connect(socket.get(), address.get(), address.size) != 0) {
    // A full backlog is not a refusal: the listener has not accepted the connection yet.
    if (!hasNothingNow())
      return peerFailed("cannot connect to '@{}': {}", name, llvm::sys::StrError(errno));
    if (std::chrono::steady_clock::now() >= deadline)
      return timedOut("could not connect to '@{}' in time", name);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Connection(std::move(socket));
}

bool Connection::hasEnded() const {
  pollfd entry{descriptor(), POLLRDHUP, 0};
  return poll(&entry, 1, 0) != 0;
}

ucred Connection::peer() const {
  ucred credentials{0, static_cast<uid_t>(-1), 0};
  socklen_t bytes = sizeof credentials;
  getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes);
  return credentials;
}

FileDescriptor Connection::openPeer() const {
  const pid_t pid = peer().pid;
  if (pid == 0 || pid == getpid())
    return FileDescriptor();
  FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // If the peer is still connected, its process id cannot have been reused.
  if (hasEnded())
    process.reset();
  return process;
}

Status Connection::send(llvm::StringRef text, int descriptor) {
  assert(!text.empty() && text.size() <= Message::kMaxBytes);
  iovec part{const_cast<char *>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
    return Status::ok();
  if (hasNothingNow())
    return badInput("cannot send: the receiver has too many unread messages");
  if (errno == EPIPE || errno == ECONNRESET)
    return peerFailed("the other side closed the connection");
  return systemError("cannot send");
}

Result<Message> Connection::receive(Deadline deadline) {
  char buffer[Message::kMaxBytes];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part{buffer, sizeof buffer};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  while ((got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 &&
         hasNothingNow())
    if (!waitUntilReady(socket_.get(), POLLIN, deadline))
      return timedOut("no message arrived in time");
  if (got < 0 && errno != ECONNRESET)
    return systemError("cannot receive");
  if (got <= 0)
    return peerFailed("the other side closed the connection");
  Message received{{buffer, static_cast<size_t>(got)}, takeDescriptor(message)};
  if (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
    return badInput("received a message of more than {} bytes or with more than one descriptor",
                    Message::kMaxBytes);
  return received;
}

} // namespace braid
