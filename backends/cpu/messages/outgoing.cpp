//===- backends/cpu/messages/outgoing.cpp - what goes to one peer -----------------------------===//

#include "backends/cpu/messages/outgoing.h"

#include <algorithm>

namespace braid {
namespace {

WireFrame frameOf(WireKind kind, const Transfer &transfer, const Tag &tag) {
  const uint32_t first = tag.plan ? tag.plan->firstCommand : 0;
  return {kind,
          transfer.number,
          first + tag.command,
          tag.run,
          0,
          static_cast<uint64_t>(transfer.bytes),
          static_cast<uint64_t>(transfer.moved)};
}

} // namespace

void Outgoing::sayReady(const Transfer &receive, const Tag &tag) {
  ready_.push_back(frameOf(WireKind::Ready, receive, tag));
}

void Outgoing::send(Transfer &transfer, const Tag &tag) {
  transfer.state = Transfer::State::Moves;
  sends_.push_back({&transfer, tag});
}

void Outgoing::beginFrame() {
  WireFrame frame;
  isOfSend_ = ready_.empty();
  if (isOfSend_) {
    const auto &[transfer, tag] = sends_.front();
    frame = frameOf(WireKind::Data, *transfer, tag);
    frame.partBytes =
        static_cast<uint32_t>(std::min<int64_t>(kMostPart, transfer->bytes - transfer->moved));
  } else {
    frame = ready_.front();
    ready_.pop_front();
  }
  encode(frame, header_);
  headerLeft_ = kWireHeaderBytes;
  dataLeft_ = frame.partBytes;
  isInFrame_ = true;
}

Outgoing::Pieces Outgoing::next() {
  if (isEmpty())
    return {};
  if (!isInFrame_)
    beginFrame();
  Pieces pieces;
  pieces.header = llvm::StringRef(header_, kWireHeaderBytes).take_back(headerLeft_);
  if (isOfSend_)
    pieces.data =
        llvm::StringRef(sends_.front().transfer->data + sends_.front().transfer->moved, dataLeft_);
  return pieces;
}

void Outgoing::take(size_t bytes) {
  const size_t ofHeader = std::min(bytes, headerLeft_), ofData = bytes - ofHeader;
  headerLeft_ -= ofHeader;
  dataLeft_ -= ofData;
  if (isOfSend_)
    sends_.front().transfer->moved += static_cast<int64_t>(ofData);
  if (headerLeft_ != 0 || dataLeft_ != 0)
    return;
  isInFrame_ = false;
  if (!isOfSend_ || sends_.front().transfer->moved != sends_.front().transfer->bytes)
    return;
  sends_.front().transfer->state = Transfer::State::IsOver;
  sends_.pop_front();
}

} // namespace braid
