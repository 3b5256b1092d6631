//===- backends/cpu/messages/incoming.h - what comes from one peer ----------------------------===//
#pragma once

#include "backends/cpu/messages/transfer.h"
#include "backends/cpu/messages/wire_frame.h"

#include <deque>

namespace braid {

/// Takes bytes as they come, and puts the data of messages where they are received. A function of
/// bytes only, so that it can be fuzzed.
class Incoming {
public:
  /// The peer may send this receive from now on. It stays where it is until it is over.
  void expect(Transfer &receive) { expected_.push_back(&receive); }
  bool isExpecting() const { return !expected_.empty(); }

  /// Where the next bytes go: never empty.
  llvm::MutableArrayRef<char> next();
  /// So many bytes have been put there. BadInput for what is no frame, or was not expected; then
  /// nothing may be called any more.
  Status take(size_t bytes);
  /// Bytes of an incomplete frame have come.
  bool isInside() const { return headerBytes_ != 0 || partLeft_ != 0; }

  /// The peer's receives that it has said to be ready for, in order; the caller takes them out.
  std::deque<WireFrame> &ready() { return ready_; }

private:
  Status takeHeader();
  Status takeReady(const WireFrame &frame);
  Status takeData(const WireFrame &frame);
  void finishPart();

  char header_[kWireHeaderBytes] = {};
  size_t headerBytes_ = 0;          ///< that have come
  size_t partLeft_ = 0;             ///< bytes that go to the first receive
  std::deque<Transfer *> expected_; ///< receives, in order
  std::deque<WireFrame> ready_;
  uint32_t nextReady_ = 0; ///< number
};

} // namespace braid
