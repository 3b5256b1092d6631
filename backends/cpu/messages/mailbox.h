//===- backends/cpu/messages/mailbox.h - messages from one rank to another --------------------===//
//
// Each rank has a mailbox for each peer, in memory of rank 0 that all ranks share. A message is a
// series of parts. The sender writes a part and posts it; the receiver copies it. So no rank reads
// another rank's tensors, and an abort needs no special treatment.
//
// Only the state of the mailbox orders sender and receiver, so that ThreadSanitizer sees exactly
// what a message guarantees. All other fields, the data included, are relaxed atomics, because a
// rank's workers take turns in using a mailbox without being ordered.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace braid {

/// Messages from one rank to another. A zeroed mailbox is free for the first part.
struct alignas(64) Mailbox {
  static constexpr size_t kPartBytes = size_t(16) << 10;

  /// 2 p if part p may be posted, 2 p + 1 if it may be copied. Parts are counted over all messages.
  std::atomic<uint32_t> state;
  // Set by the sender for each message.
  std::atomic<uint32_t> command; ///< the sender's: Plan::firstCommand + Tag::command
  std::atomic<uint32_t> run;
  std::atomic<int64_t> bytes;
  /// In the mailbox of a rank for itself: a futex that changes when a peer has posted or copied.
  alignas(64) std::atomic<uint32_t> bell;
  alignas(64) std::atomic<uint64_t> part[kPartBytes / sizeof(uint64_t)];
};

} // namespace braid
