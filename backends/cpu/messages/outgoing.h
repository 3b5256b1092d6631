//===- backends/cpu/messages/outgoing.h - what goes to one peer -------------------------------===//
#pragma once

#include "backends/cpu/messages/transfer.h"
#include "backends/cpu/messages/wire_frame.h"
#include "runtime/execute/tag.h"

#include <deque>

namespace braid {

/// The bytes that are to be written to a connection. What is ready goes between parts of what is
/// sent, so that nobody who sends much holds up what comes.
class Outgoing {
public:
  bool isEmpty() const { return !isInFrame_ && ready_.empty() && sends_.empty(); }
  void sayReady(const Transfer &receive, const Tag &tag);
  /// The peer is ready for it. It stays where it is until it is over.
  void send(Transfer &transfer, const Tag &tag);

  /// The next bytes, at most two pieces of them; none where it is empty.
  struct Pieces {
    llvm::StringRef header, data;
  };
  Pieces next();
  /// So many of them have been written.
  void take(size_t bytes);

private:
  void beginFrame();

  struct Send {
    Transfer *transfer;
    Tag tag;
  };
  std::deque<WireFrame> ready_;
  std::deque<Send> sends_;
  // Of the frame that is being written.
  bool isInFrame_ = false;
  char header_[kWireHeaderBytes] = {};
  size_t headerLeft_ = 0, dataLeft_ = 0;
  bool isOfSend_ = false; ///< the first one
};

} // namespace braid
