//===- backends/cpu/messages/mailboxes.h - messages between ranks on one machine --------------===//
//
// Each rank has a mailbox for each peer, in shared memory. The sender writes a part of a message
// into the mailbox and posts it. The receiver copies the part out and requests the next part, or
// reports that the entire message has arrived. No rank reads another rank's memory, so an abort
// needs no special handling.
//
// Only the mailbox's state orders the two ranks, so that ThreadSanitizer sees exactly the ordering
// that a message guarantees. All other fields, including the data, are relaxed atomics, because a
// rank's workers take turns using a mailbox without being ordered with each other.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/job/bootstrap/socket.h"

#include <atomic>
#include <memory>

namespace braid {

/// Carries messages from one rank to another. A zeroed mailbox is ready for message 0.
struct alignas(64) Mailbox {
  static constexpr size_t kPartBytes = size_t(128) << 10;

  std::atomic<uint32_t> state; ///< message number << 2 | Phase (see operation.cpp)
  // Set by the sender for each message.
  std::atomic<uint32_t> command; ///< the sender's Plan::firstCommand + Tag::command
  std::atomic<uint32_t> run;
  std::atomic<int64_t> bytes;
  alignas(64) std::atomic<uint64_t> part[kPartBytes / sizeof(uint64_t)];
};

/// The mailboxes of all ranks, mapped for the lifetime of this object. Only pages that messages
/// have used occupy physical memory.
class Mailboxes {
public:
  /// Creates the mailboxes on rank 0 and maps them on all ranks. Collective. Fails with Unsupported
  /// if rank 0 is on another machine.
  static Result<std::unique_ptr<Mailboxes>> share(ControlPlane &control);
  ~Mailboxes();
  Mailboxes(const Mailboxes &) = delete;

  Mailbox &between(int64_t from, int64_t to);
  /// Returns the futex that changes when a peer posts a part for `rank` or receives a part from it.
  std::atomic<uint32_t> &bell(int64_t rank);

private:
  struct Header;
  Mailboxes(FileDescriptor descriptor, void *address, int64_t ranks)
      : descriptor_(std::move(descriptor)), header_(static_cast<Header *>(address)), ranks_(ranks) {
  }
  static size_t bytes(int64_t ranks);
  static Result<std::unique_ptr<Mailboxes>> make(int64_t ranks);
  static Result<std::unique_ptr<Mailboxes>> map(FileDescriptor descriptor, int64_t ranks);

  FileDescriptor descriptor_; ///< kept open so that peers can open the memory through /proc
  Header *header_;
  int64_t ranks_;
};

} // namespace braid
