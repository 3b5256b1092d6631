//===- backends/cpu/messages/mailboxes.h - messages between ranks of one machine --------------===//
//
// Each rank has a mailbox for each peer, in shared memory. The sender writes the next part of a
// message there and posts it; the receiver copies it and requests the next part, or reports that
// the message has arrived. So no rank reads another rank's memory, and an abort needs no special
// treatment.
//
// Only the state of the mailbox orders sender and receiver, so that ThreadSanitizer sees exactly
// what a message guarantees. All other fields, the data included, are relaxed atomics, because a
// rank's workers take turns in using a mailbox without being ordered.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/job/bootstrap/socket.h"

#include <atomic>
#include <memory>

namespace braid {

/// Messages from one rank to another. A zeroed mailbox is free for message 0.
struct alignas(64) Mailbox {
  static constexpr size_t kPartBytes = size_t(128) << 10;

  std::atomic<uint32_t> state; ///< message number << 2 | Phase, see operation.cpp
  // Set by the sender for each message.
  std::atomic<uint32_t> command; ///< the sender's: Plan::firstCommand + Tag::command
  std::atomic<uint32_t> run;
  std::atomic<int64_t> bytes;
  alignas(64) std::atomic<uint64_t> part[kPartBytes / sizeof(uint64_t)];
};

/// The mailboxes of all ranks, mapped for the lifetime of this object. Only pages that messages
/// have used occupy memory.
class Mailboxes {
public:
  /// Rank 0 creates the mailboxes, and all ranks map them. Collective. Fails with Unsupported if
  /// rank 0 is on another machine.
  static Result<std::unique_ptr<Mailboxes>> share(ControlPlane &control);
  ~Mailboxes();
  Mailboxes(const Mailboxes &) = delete;

  Mailbox &between(int64_t from, int64_t to);
  /// Returns a futex that changes when a peer of `rank` has posted or received a part.
  std::atomic<uint32_t> &bell(int64_t rank);

private:
  struct Header;
  Mailboxes(FileDescriptor descriptor, void *address, int64_t ranks)
      : descriptor_(std::move(descriptor)), header_(static_cast<Header *>(address)), ranks_(ranks) {
  }
  static size_t bytes(int64_t ranks);
  static Result<std::unique_ptr<Mailboxes>> make(int64_t ranks);
  static Result<std::unique_ptr<Mailboxes>> map(FileDescriptor descriptor, int64_t ranks);

  FileDescriptor descriptor_; ///< peers can open it while it is open here
  Header *header_;
  int64_t ranks_;
};

} // namespace braid
