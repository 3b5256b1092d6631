//===- backends/cpu/messages/mailboxes.h - messages between ranks of one machine --------------===//
//
// Each rank has a mailbox for each peer, in shared memory. The sender writes the next part of a
// message there and posts it; the receiver copies it out and asks for the next part, or says that
// the message has arrived. So no rank reads another one's memory, and an abort needs no care.
//
// The state of the mailbox orders sender and receiver, and nothing else does: ThreadSanitizer sees
// what a message gives. All other fields are relaxed atomics, the data included, because a rank's
// workers use a mailbox in turn, and nothing orders these.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/messages/transfer.h"
#include "runtime/execute/tag.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/STLExtras.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace braid {

/// Messages from one rank to another. Zeros are a mailbox that is free for message 0.
struct alignas(64) Mailbox {
  static constexpr size_t kPartBytes = size_t(128) << 10;

  std::atomic<uint32_t> state; ///< message number << 2 | Phase
  // The sender fills in these for each message.
  std::atomic<uint32_t> command; ///< the sender's: Plan::firstCommand + Tag::command
  std::atomic<uint32_t> run;
  std::atomic<int64_t> bytes;
  alignas(64) std::atomic<uint64_t> part[kPartBytes / sizeof(uint64_t)];
};

/// The mailboxes of all ranks, mapped for as long as this lives. Only pages that messages have used
/// take memory.
class Mailboxes {
public:
  static Result<std::shared_ptr<Mailboxes>> create(int64_t ranks);
  /// Maps what create() made in another process. BadInput if `descriptor` is anything else.
  static Result<std::shared_ptr<Mailboxes>> map(FileDescriptor descriptor, int64_t ranks,
                                                uint64_t number);
  ~Mailboxes();
  Mailboxes(const Mailboxes &) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// Drawn by create(): tells these mailboxes from all others.
  uint64_t number() const;
  Mailbox &between(int64_t from, int64_t to);
  /// Changes when a peer of `rank` has posted or taken something. A futex.
  std::atomic<uint32_t> &bell(int64_t rank);

private:
  struct Header;
  Mailboxes(FileDescriptor descriptor, void *address, int64_t ranks)
      : descriptor_(std::move(descriptor)), header_(static_cast<Header *>(address)), ranks_(ranks) {
  }
  static size_t bytes(int64_t ranks);
  static Result<std::shared_ptr<Mailboxes>> mapped(FileDescriptor descriptor, int64_t ranks);

  FileDescriptor descriptor_;
  Header *header_;
  int64_t ranks_;
};

/// Messages of one rank that move at the same time.
struct Exchange {
  Tag tag; ///< names the command that they belong to
  llvm::MutableArrayRef<Transfer> transfers;

  bool isOver() const {
    return llvm::all_of(transfers, [](const Transfer &each) { return each.isOver(); });
  }
};

/// The outcome of a step of an exchange.
enum class Advance : uint8_t { IsOver, Moved, Waits };

/// Moves messages between a rank and its peers, one exchange at a time, which any of the rank's
/// workers may drive. A send is over when the receiver has all of it.
class MessageLink {
public:
  /// Gives the mailboxes; collective.
  using Open = std::function<Result<std::shared_ptr<Mailboxes>>()>;
  MessageLink(int64_t rank, Open open) : rank_(rank), open_(std::move(open)) {}

  /// As Messages::openTeams.
  Status open();
  bool isOpen() const { return mailboxes_ != nullptr; }

  /// Moves what can be moved without waiting. BadInput if the two sides of a message do not fit.
  Result<Advance> advance(Exchange &exchange);
  /// advance() would move something now.
  bool canAdvance(const Exchange &exchange) const;
  /// This rank's, see Mailboxes::bell().
  const std::atomic<uint32_t> &bell() const { return mailboxes_->bell(rank_); }

private:
  Mailbox &boxOf(const Transfer &transfer) const;
  bool canMove(const Exchange &exchange, const Transfer &transfer, std::memory_order order) const;
  Status move(Transfer &transfer, const Tag &tag);
  void announce(const Transfer &transfer, const Tag &tag);
  void post(Transfer &transfer);
  void take(Transfer &transfer);
  Status check(const Transfer &transfer, const Tag &tag) const;
  void change(const Transfer &transfer, uint32_t state);

  const int64_t rank_;
  const Open open_;
  std::shared_ptr<Mailboxes> mailboxes_; ///< null: not open
};

} // namespace braid
