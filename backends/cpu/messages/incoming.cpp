//===- backends/cpu/messages/incoming.cpp - what comes from one peer --------------------------===//

#include "backends/cpu/messages/incoming.h"

#include "ir/failure.h"

namespace braid {
namespace {

/// A peer is one operation ahead at most. More than any has in it is nonsense.
constexpr size_t kMostReady = size_t(1) << 20;

} // namespace

llvm::MutableArrayRef<char> Incoming::next() {
  if (partLeft_ != 0)
    return {expected_.front()->data + expected_.front()->moved, partLeft_};
  return {header_ + headerBytes_, kWireHeaderBytes - headerBytes_};
}

Status Incoming::take(size_t bytes) {
  if (partLeft_ != 0) {
    expected_.front()->moved += static_cast<int64_t>(bytes);
    partLeft_ -= bytes;
    finishPart();
    return Status::ok();
  }
  headerBytes_ += bytes;
  if (headerBytes_ < kWireHeaderBytes)
    return Status::ok();
  headerBytes_ = 0;
  return takeHeader();
}

Status Incoming::takeHeader() {
  const WireFrame frame = BRAID_TRY(decodeWireFrame({header_, kWireHeaderBytes}));
  return frame.kind == WireKind::Ready ? takeReady(frame) : takeData(frame);
}

Status Incoming::takeReady(const WireFrame &frame) {
  if (frame.number != nextReady_)
    return badInput("expected the peer to be ready for message {}, got {}", nextReady_,
                    frame.number);
  if (ready_.size() == kMostReady)
    return badInput("expected the peer to be ready for at most {} messages", kMostReady);
  ++nextReady_;
  ready_.push_back(frame);
  return Status::ok();
}

Status Incoming::takeData(const WireFrame &frame) {
  if (expected_.empty())
    return badInput("expected no data, got message {} of {} bytes", frame.number,
                    frame.messageBytes);
  const Transfer &receive = *expected_.front();
  if (frame.number != receive.number ||
      frame.messageBytes != static_cast<uint64_t>(receive.bytes) ||
      frame.offset != static_cast<uint64_t>(receive.moved))
    return badInput("expected message {} of {} bytes from byte {} on, got message {} of {} bytes "
                    "from byte {} on",
                    receive.number, receive.bytes, receive.moved, frame.number, frame.messageBytes,
                    frame.offset);
  partLeft_ = frame.partBytes;
  finishPart();
  return Status::ok();
}

void Incoming::finishPart() {
  Transfer &receive = *expected_.front();
  if (partLeft_ != 0 || receive.moved != receive.bytes)
    return;
  receive.state = Transfer::State::IsOver;
  expected_.pop_front();
}

} // namespace braid
