//===- runtime/job/bootstrap/socket.h - time limits, descriptors and local connections --------===//
//
// Connections are Unix sockets that keep the limits of messages (SOCK_SEQPACKET) under names of
// Linux's abstract name space: a name is gone with the last descriptor of its socket, so a process
// that is killed leaves nothing behind. Messages may bring a file descriptor. Descriptors are
// close-on-exec, and no call raises SIGPIPE.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include <sys/types.h>

namespace braid {

using Deadline = std::chrono::steady_clock::time_point;
/// BadInput for less than 1 ms.
Status checkTimeLimit(std::chrono::milliseconds time);
/// Longer times are cut to this, so that clocks do not overflow: years.
inline constexpr std::chrono::milliseconds kLongestTime = std::chrono::hours(24 * 365 * 20);
constexpr std::chrono::milliseconds boundedTime(std::chrono::milliseconds time) {
  return std::clamp(time, std::chrono::milliseconds(0), kLongestTime);
}
/// For any time, however long.
inline Deadline deadlineIn(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + boundedTime(time);
}

/// Waits until poll() has `events` of a descriptor or an end to report. False at the deadline.
bool waitUntilReady(int descriptor, short events, Deadline deadline);
/// The last call on a socket failed only because there is nothing to read, or no room to write,
/// or a signal came.
bool hasNothingNow();

/// Owns a file descriptor.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  /// Another number for the same file, close-on-exec. Invalid if there is none to be had.
  static FileDescriptor duplicate(int number);
  FileDescriptor(FileDescriptor &&other) noexcept : number_(other.release()) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept;
  ~FileDescriptor() { reset(); }
  bool isValid() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() {
    int number = number_;
    number_ = -1;
    return number;
  }
  void reset();

private:
  int number_ = -1;
};

/// A connection to a listener, close-on-exec, that does not block; invalid if there is none now.
FileDescriptor acceptFrom(const FileDescriptor &listener);

struct PeerIdentity {
  pid_t pid = 0; ///< 0: in another pid namespace
  uid_t uid = static_cast<uid_t>(-1);
};

/// A message of 1 to kMaxBytes bytes, and the descriptor that came with it.
struct Message {
  static constexpr size_t kMaxBytes = 4096;
  std::string text;
  FileDescriptor descriptor;
};

/// One end of a connection.
class Connection {
public:
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}
  /// A socket that takes connections under `name`; invalid if the name is taken.
  static Result<FileDescriptor> listenAt(const std::string &name);
  /// PeerFailed if no process listens there; TimedOut at the deadline.
  static Result<Connection> connect(const std::string &name, Deadline deadline);

  int descriptor() const { return socket_.get(); }
  /// The other side has ended it. There may be messages to read still.
  bool hasEnded() const;
  /// The process that connected, or that listened.
  PeerIdentity peer() const;
  /// The process at the other end, held by a descriptor so that its number cannot come to mean
  /// another one: readable when it is dead. Invalid if it cannot be seen from here, is gone, or is
  /// this one.
  FileDescriptor openPeer() const;

  /// Sends the message now, or returns false if there is no room for it. PeerFailed if the other
  /// side is gone.
  Result<bool> send(llvm::StringRef text, int descriptor = -1);
  /// The next message, or nothing if none is there. PeerFailed at the end of the connection;
  /// BadInput for a message that is too long.
  Result<std::optional<Message>> receive();
  /// Blocks for it. TimedOut at the deadline.
  Result<Message> receive(Deadline deadline);

private:
  FileDescriptor socket_;
};

} // namespace braid
