//===- runtime/job/network/host_link.h - frames between two hosts -----------------------------===//
#pragma once

#include "runtime/job/network/secure_stream.h"

#include <poll.h>

namespace braid {

/// How long a host that is done stays for those that have not read what it said last.
inline constexpr std::chrono::milliseconds kForDisconnect{1000};

/// No call blocks.
class HostLink {
public:
  using Clock = std::chrono::steady_clock;
  explicit HostLink(SecureStream stream)
      : stream_(std::move(stream)), decoder_(kMaxBody), heard_(Clock::now()) {}

  int descriptor() const { return stream_.descriptor(); }
  /// The socket is to take more before all has been sent.
  bool hasUnsent() const { return sent_ < waiting_.size() || stream_.hasUnsent(); }
  /// For poll().
  short wantedEvents() const { return static_cast<short>(hasUnsent() ? POLLIN | POLLOUT : POLLIN); }
  /// Sends what can be sent now; the rest follows with flush(). A failure comes with receive().
  void send(const Frame &frame);
  void flush();
  /// What has come. PeerFailed at the end of the connection, BadInput for what is no frame; frames
  /// before it are given out.
  Status receive(std::vector<Frame> &frames);
  /// The first frame that has come, or nothing; receive() gives those after it.
  Result<std::optional<Frame>> receiveFirst();
  /// Something has come that was not given out, and that the socket does not tell of.
  bool hasUnread() const { return decoder_.hasNext() || stream_.hasUnread(); }
  /// When anything came for the last time.
  Clock::time_point heard() const { return heard_; }
  /// Nothing came for so long, and nothing is there now that was not looked at: who looks may have
  /// been away itself.
  bool isSilentFor(std::chrono::milliseconds time) const;

  /// Says that nothing more comes. The link is to be kept until hasEnded(), or for as long as that
  /// may take.
  void disconnect();
  /// The other side has read all, and closed its end. To be asked again when the socket takes more
  /// or tells something. Who closes its own end before, while something it has not read has come,
  /// may undo what it has sent last.
  bool hasEnded();

private:
  Status readAll();

  SecureStream stream_;
  FrameDecoder decoder_;
  std::string waiting_;     ///< to be sealed
  size_t sent_ = 0;         ///< of it
  bool isShutDown_ = false; ///< nothing more is sent
  Status failure_;          ///< of sending
  Clock::time_point heard_;
};

} // namespace braid
