//===- runtime/job/network/host_link.cpp ------------------------------------------------------===//

#include "runtime/job/network/host_link.h"

#include "ir/failure.h"

#include <sys/socket.h>

namespace braid {

/// So that one host does not keep the rendezvous from its own ranks.
constexpr int kMostReads = 64;

void HostLink::send(const Frame &frame) {
  if (!failure_.isOk())
    return; // it would be kept for nothing
  waiting_ += encode(frame);
  flush();
}

/// What has been taken goes when it is most of the whole: each byte is moved a few times at most.
void HostLink::flush() {
  const Result<size_t> sent = stream_.write(llvm::StringRef(waiting_).drop_front(sent_));
  if (!sent)
    failure_ = sent.status();
  else
    sent_ += *sent;
  if (sent_ > waiting_.size() / 2) {
    waiting_.erase(0, sent_);
    sent_ = 0;
  }
}

Status HostLink::readAll() {
  char bytes[size_t(64) << 10];
  for (int reads = 0; reads < kMostReads || stream_.hasUnread(); ++reads) {
    const size_t count = BRAID_TRY(stream_.read(bytes));
    if (count == 0)
      return Status::ok();
    heard_ = Clock::now();
    BRAID_TRY(decoder_.feed({bytes, count}));
  }
  return Status::ok();
}

/// What came before the end is whole: a host that says why it ends does so first.
Status HostLink::receive(std::vector<Frame> &frames) {
  Status status = readAll();
  while (std::optional<Frame> frame = decoder_.next())
    frames.push_back(std::move(*frame));
  return status.isOk() && frames.empty() ? failure_ : status;
}

Result<std::optional<Frame>> HostLink::receiveFirst() {
  const Status status = readAll();
  std::optional<Frame> frame = decoder_.next();
  if (frame)
    return frame;
  BRAID_TRY(status);
  BRAID_TRY(failure_);
  return frame;
}

bool HostLink::isSilentFor(std::chrono::milliseconds time) const {
  pollfd entry{descriptor(), POLLIN, 0};
  return Clock::now() - heard_ >= time && !hasUnread() && poll(&entry, 1, 0) == 0;
}

void HostLink::disconnect() { send({.kind = FrameKind::Disconnect}); }

bool HostLink::hasEnded() {
  flush();
  if (!failure_.isOk())
    return true;
  if (!hasUnsent() && !std::exchange(isShutDown_, true))
    shutdown(descriptor(), SHUT_WR);
  std::vector<Frame> ignored;
  return !receive(ignored).isOk();
}

} // namespace braid
