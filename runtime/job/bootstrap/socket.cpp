//===- runtime/job/bootstrap/socket.cpp -------------------------------------------------------===//
#include "runtime/job/bootstrap/socket.h"

#include "ir/failure.h"

#include "llvm/Support/Errno.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace braid {

namespace {
Status systemError(const std::string &what) {
  return internalError("{}: {}", what, llvm::sys::StrError(errno));
}

bool wouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK; }

/// Takes every descriptor out of the control data of `message`.
void takeDescriptors(msghdr &message, std::vector<FileDescriptor> &descriptors) {
  for (cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
      continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
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

bool hasNothingNow() { return wouldBlock() || errno == EINTR; }

FileDescriptor FileDescriptor::duplicate(int number) {
  return FileDescriptor(fcntl(number, F_DUPFD_CLOEXEC, 0));
}

FileDescriptor &FileDescriptor::operator=(FileDescriptor &&other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

void FileDescriptor::reset() {
  if (number_ >= 0)
    ::close(number_);
  number_ = -1;
}

Connection::Connection(FileDescriptor socket, size_t maxBody)
    : socket_(std::move(socket)), decoder_(maxBody) {}

Result<Connection> Connection::connect(const std::string &path, Deadline deadline, size_t maxBody) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return badInput("expected the path of a socket of at most {} bytes, got '{}'",
                    sizeof address.sun_path - 1, path);
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.isValid())
    return systemError("cannot make a socket");
  while (::connect(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
    // A full backlog is no refusal: whoever listens has not got round to it.
    if (!hasNothingNow())
      return peerFailed("expected somebody to listen at '{}', got: {}", path,
                        llvm::sys::StrError(errno));
    if (std::chrono::steady_clock::now() >= deadline)
      return timedOut("cannot connect to '{}' in time", path);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Connection(std::move(socket), maxBody);
}

Result<PeerIdentity> Connection::peer() const {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return systemError("cannot ask who is connected");
  return PeerIdentity{credentials.pid, credentials.uid};
}

FileDescriptor Connection::openPeer() const {
  const Result<PeerIdentity> identity = peer();
  if (!identity || identity->pid == 0 || identity->pid == getpid())
    return FileDescriptor();
  FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, identity->pid, 0)));
  // Connected after it was opened: the number is still that of who connected.
  pollfd entry{descriptor(), POLLRDHUP, 0};
  if (poll(&entry, 1, 0) != 0)
    process.reset();
  return process;
}

Result<size_t> Connection::sendAvailable(llvm::StringRef bytes, int descriptor) {
  iovec part{const_cast<char *>(bytes.data()), bytes.size()};
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
  ssize_t sent;
  do
    sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0)
    return static_cast<size_t>(sent);
  if (wouldBlock() || errno == ENOBUFS)
    return size_t(0);
  if (errno == EPIPE || errno == ECONNRESET)
    return peerFailed("the other side of the connection is gone");
  return systemError("cannot send");
}

Status Connection::send(const Frame &frame, Deadline deadline, int descriptor) {
  assert(frame.hasDescriptor == (descriptor >= 0));
  std::string bytes = encode(frame);
  llvm::StringRef rest = bytes;
  while (true) {
    size_t sent = BRAID_TRY(sendAvailable(rest, descriptor));
    rest = rest.drop_front(sent);
    if (rest.empty())
      return Status::ok();
    if (sent > 0)
      descriptor = -1;
    else if (!waitUntilReady(socket_.get(), POLLOUT, deadline))
      return timedOut("the other side of the connection does not read");
  }
}

/// Reads once: the number of bytes, or 0 if there are none now.
Result<size_t> Connection::readOnce() {
  char buffer[size_t(64) << 10];
  // Room for one descriptor. Alignment makes it room for two on some machines, so that the number
  // of those that came has to be looked at as well as the mark for those that did not fit.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part{buffer, sizeof buffer};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do
    got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && wouldBlock())
    return size_t(0);
  if (got < 0 && errno != ECONNRESET)
    return systemError("cannot receive");
  if (got <= 0)
    return peerFailed("the other side closed the connection");
  std::vector<FileDescriptor> came;
  takeDescriptors(message, came);
  if (came.size() > 1 || (message.msg_flags & MSG_CTRUNC))
    return badInput("expected one descriptor with a message, got more, or had no room for it");
  if (!came.empty())
    descriptors_.push_back(std::move(came.front()));
  if (Status status = decoder_.feed({buffer, static_cast<size_t>(got)}); !status.isOk())
    failure_ = status; // the frames before it are good
  return static_cast<size_t>(got);
}

/// Moves complete frames out of the decoder, each with its descriptor.
///
/// One read ends with the bytes that a descriptor came with, and those begin a frame. So a
/// descriptor is there when its frame is, in the same order, and at most one is ahead of its frame.
/// If that does not hold, no frame of this read can be trusted.
Status Connection::takeFrames(std::vector<Received> &frames) {
  std::vector<Received> taken;
  while (std::optional<Frame> frame = decoder_.next()) {
    Received received{std::move(*frame), {}};
    if (received.frame.hasDescriptor) {
      if (descriptors_.empty())
        return badInput("expected a descriptor with a message, got none");
      received.descriptor = std::move(descriptors_.front());
      descriptors_.pop_front();
    }
    taken.push_back(std::move(received));
  }
  if (descriptors_.size() > (decoder_.isInside() ? 1 : 0))
    return badInput("expected no descriptor with a message, got one");
  std::move(taken.begin(), taken.end(), std::back_inserter(frames));
  return Status::ok();
}

Status Connection::readAvailable(std::vector<Received> &frames) {
  for (int reads = 0; reads < 16; ++reads) {
    size_t bytes = BRAID_TRY(readOnce());
    BRAID_TRY(takeFrames(frames));
    if (!failure_.isOk() || bytes == 0)
      return failure_;
  }
  return Status::ok();
}

Status Connection::receiveAvailable(std::vector<Received> &frames, bool *wasInside) {
  if (failure_.isOk())
    failure_ = readAvailable(frames);
  if (!failure_.isOk())
    descriptors_.clear();
  if (wasInside)
    *wasInside = decoder_.isInside();
  return failure_;
}

Result<Received> Connection::receive(Deadline deadline) {
  while (ready_.empty()) {
    std::vector<Received> frames;
    Status status = receiveAvailable(frames);
    for (Received &frame : frames)
      ready_.push_back(std::move(frame));
    if (!ready_.empty())
      break;
    if (!status.isOk())
      return status;
    if (!waitUntilReady(socket_.get(), POLLIN, deadline))
      return timedOut("expected a message in time, got none");
  }
  Received first = std::move(ready_.front());
  ready_.pop_front();
  return first;
}

} // namespace braid
