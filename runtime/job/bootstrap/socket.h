//===- runtime/job/bootstrap/socket.h - time limits, descriptors and local connections --------===//
//
// Connections are Unix sockets that preserve message boundaries (SOCK_SEQPACKET), with names in
// Linux's abstract namespace. An abstract name disappears with the last descriptor of its socket,
// so a killed process leaves nothing behind. A message may carry a file descriptor. All descriptors
// are close-on-exec, and no call raises SIGPIPE.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <sys/socket.h>

namespace braid {

using Deadline = std::chrono::steady_clock::time_point;
/// Returns BadInput if `time` is less than 1 ms.
Status checkTimeLimit(std::chrono::milliseconds time);
/// Time limits are clamped to 20 years, so that deadlines do not overflow.
inline constexpr std::chrono::milliseconds kLongestTime = std::chrono::hours(24 * 365 * 20);
constexpr std::chrono::milliseconds boundedTime(std::chrono::milliseconds time) {
  return std::clamp(time, std::chrono::milliseconds(0), kLongestTime);
}
/// Returns a deadline `time` from now. Cannot overflow; see boundedTime().
inline Deadline deadlineIn(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + boundedTime(time);
}

/// Waits until poll() reports `events` or a hang-up. Returns false at the deadline.
bool waitUntilReady(int descriptor, short events, Deadline deadline);
/// Returns true if the last socket call failed only because it would have blocked or was
/// interrupted by a signal.
bool hasNothingNow();

/// Owns a file descriptor.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor &&other) noexcept : number_(other.release()) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept;
  ~FileDescriptor() { reset(); }
  bool isValid() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void reset();

private:
  int number_ = -1;
};

/// Memory mapped from a file, which is unmapped on destruction.
struct Unmap {
  size_t bytes = 0;
  void operator()(void *address) const;
};
using SharedMapping = std::unique_ptr<void, Unmap>;
/// Maps the first `bytes` bytes of a file, so that writes are visible to all processes that map the
/// file. Returns null on failure, with errno set.
SharedMapping mapShared(const FileDescriptor &file, size_t bytes);

/// Accepts a connection. The descriptor is non-blocking and close-on-exec, or invalid on failure.
FileDescriptor acceptFrom(const FileDescriptor &listener);

/// A message of 1 to kMaxBytes bytes, with an optional descriptor.
struct Message {
  static constexpr size_t kMaxBytes = 4096;
  std::string text;
  FileDescriptor descriptor;
};

/// One end of a connection.
class Connection {
public:
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}
  /// Returns a socket that listens under `name`, or an invalid descriptor if the name is taken.
  static Result<FileDescriptor> listenAt(const std::string &name);
  /// Connects to `name`. Returns PeerFailed if nothing listens there, and TimedOut at the deadline.
  static Result<Connection> connect(const std::string &name, Deadline deadline);

  int descriptor() const { return socket_.get(); }
  /// Returns true if the peer has closed the connection. Unread messages may remain.
  bool hasEnded() const;
  /// Returns the identity of the process at the other end. The pid is 0 if the process is in
  /// another pid namespace. If the identity is unknown, the pid is 0 and the uid is -1.
  ucred peer() const;
  /// Returns a pidfd for the peer's process. It becomes readable when the process exits, and refers
  /// to that process even if the pid is reused. Returns an invalid descriptor if the process is not
  /// visible to this process, has exited, or is this process.
  FileDescriptor openPeer() const;

  /// Sends a message without blocking. Returns PeerFailed if the peer is gone, and BadInput if the
  /// peer has left too many messages unread.
  Status send(llvm::StringRef text, int descriptor = -1);
  /// Blocks until the next message arrives. Returns TimedOut at the deadline, PeerFailed if the
  /// connection has ended, and BadInput if the message is too long.
  Result<Message> receive(Deadline deadline);

private:
  FileDescriptor socket_;
};

} // namespace braid
