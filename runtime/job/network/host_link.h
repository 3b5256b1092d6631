//===- runtime/job/network/host_link.h - frames between two hosts -----------------------------===//
#pragma once

#include "runtime/job/network/secure_stream.h"

namespace braid {

/// No call blocks.
class HostLink {
public:
  using Clock = std::chrono::steady_clock;
  explicit HostLink(SecureStream stream)
      : stream_(std::move(stream)), decoder_(kMaxBody), heard_(Clock::now()) {}

  int descriptor() const { return stream_.descriptor(); }
  /// The socket is to take more before all has been sent.
  bool hasUnsent() const { return !waiting_.empty() || stream_.hasUnsent(); }
  /// Sends what can be sent now; the rest follows with flush(). A failure comes with receive().
  void send(const Frame &frame);
  void flush();
  /// What has come. PeerFailed at the end of the connection, BadInput for what is no frame; frames
  /// before it are given out.
  Status receive(std::vector<Frame> &frames);
  /// When anything came for the last time.
  Clock::time_point heard() const { return heard_; }

private:
  Status readAll();

  SecureStream stream_;
  FrameDecoder decoder_;
  std::string waiting_; ///< not sealed yet
  Status failure_;      ///< of sending
  Clock::time_point heard_;
};

} // namespace braid
