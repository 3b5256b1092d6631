//===- runtime/job/bootstrap/socket.h - frames and file descriptors over a Unix socket --------===//
//
// Every call is bounded by a deadline. No call raises SIGPIPE. Descriptors are close-on-exec.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/frame.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <sys/types.h>

namespace braid {

using Deadline = std::chrono::steady_clock::time_point;
/// BadInput for less than 1 ms.
Status checkTimeLimit(std::chrono::milliseconds time);
/// What no clock can count to is as good as this: years.
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
/// By errno: a call on a socket failed only because there is nothing to read, or no room to write,
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

/// A frame, and the descriptor that came with it, if frame.hasDescriptor.
struct Received {
  Frame frame;
  FileDescriptor descriptor;
};

struct PeerIdentity {
  pid_t pid = 0; ///< 0: in another pid namespace
  uid_t uid = 0;
};

/// One end of a connected stream socket. Sending and receiving may be done by two threads, each by
/// one.
class Connection {
public:
  Connection(FileDescriptor socket, size_t maxBody);

  Connection(Connection &&) noexcept = default;
  Connection &operator=(Connection &&) noexcept = default;

  /// Connects to the socket at `path`. PeerFailed if nobody listens there.
  static Result<Connection> connect(const std::string &path, Deadline deadline, size_t maxBody);

  int descriptor() const { return socket_.get(); }
  Result<PeerIdentity> peer() const;
  /// The process at the other end, held by a descriptor so that its number cannot come to mean
  /// another one: readable when it is dead. Invalid if it cannot be seen from here, is gone, or is
  /// this one.
  FileDescriptor openPeer() const;
  void setMaxBody(size_t bytes) { decoder_.setMaxBody(bytes); }

  /// TimedOut, or PeerFailed if the other side is gone.
  Status send(const Frame &frame, Deadline deadline, int descriptor = -1);

  /// Sends as many of `bytes` as the socket takes now, without blocking; `descriptor` goes along
  /// with the first of them. Returns how many: 0 if there is no room. PeerFailed if the other side
  /// is gone.
  Result<size_t> sendAvailable(llvm::StringRef bytes, int descriptor = -1);

  /// Reads what is there, without blocking, and puts complete frames into `frames`. PeerFailed at
  /// the end of the stream; `wasInside` tells whether it cut a frame off. BadInput for what is no
  /// frame, for more than one descriptor, for one that was not announced or did not come, and for
  /// control data that was truncated: every descriptor received is closed then.
  /// `frames` gets what came before the failure, too, but nothing that came along with a wrong
  /// descriptor. Reads at most about a megabyte, so that one
  /// connection does not keep its reader from the others.
  Status receiveAvailable(std::vector<Received> &frames, bool *wasInside = nullptr);

  /// Blocks for one frame.
  Result<Received> receive(Deadline deadline);

private:
  Result<size_t> readOnce();
  Status takeFrames(std::vector<Received> &frames);
  Status readAvailable(std::vector<Received> &frames);

  FileDescriptor socket_;
  FrameDecoder decoder_;
  std::deque<FileDescriptor> descriptors_; ///< received, and not yet matched with their frame
  std::deque<Received> ready_;             ///< for receive()
  Status failure_;                         ///< of receiving: it stays failed
};

} // namespace braid
