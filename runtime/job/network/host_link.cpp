//===- runtime/job/network/host_link.cpp ------------------------------------------------------===//

#include "runtime/job/network/host_link.h"

#include "ir/failure.h"

namespace braid {

/// So that one host does not keep the rendezvous from its own ranks.
constexpr int kMostReads = 64;

void HostLink::send(const Frame &frame) {
  waiting_ += encode(frame);
  flush();
}

void HostLink::flush() {
  Result<size_t> sent = stream_.write(waiting_);
  if (!sent)
    failure_ = sent.status();
  else
    waiting_.erase(0, *sent);
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

} // namespace braid
