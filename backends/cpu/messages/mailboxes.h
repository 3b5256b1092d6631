//===- backends/cpu/messages/mailboxes.h - messages between threads of one process ------------===//
//
// Each rank has a mailbox for each peer, in which the peer's next message is announced; the
// receiver copies it. Who sends and who receives is ordered by the word of the mailbox, and nothing
// else is:
// ThreadSanitizer sees what a message gives. All other fields are relaxed atomics, as a rank's
// workers, which use them in turn, are not ordered by that.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/messages/link.h"

#include <memory>

namespace braid {

/// Messages from one rank to another.
struct alignas(64) Mailbox {
  /// number << 2 | Phase, of the message that is next.
  std::atomic<uint32_t> word{0};
  // What the sender says of it.
  std::atomic<const char *> data{nullptr};
  std::atomic<int64_t> bytes{0};
  std::atomic<const Plan *> plan{nullptr};
  std::atomic<uint32_t> command{0}, run{0};
};

/// Those of all ranks of a process.
class Mailboxes {
public:
  explicit Mailboxes(int64_t ranks) : ranks_(ranks), ofRank_(static_cast<size_t>(ranks)) {}

  /// Makes the mailboxes of `rank`, once. Each rank does that, and then they meet.
  void open(int64_t rank);
  bool isOpen(int64_t rank) const { return ofRank_[static_cast<size_t>(rank)].boxes != nullptr; }
  /// Both ranks have theirs.
  Mailbox &between(int64_t from, int64_t to) {
    return ofRank_[static_cast<size_t>(to)].boxes[static_cast<size_t>(from)];
  }
  /// Of a rank: somebody has done something for it.
  std::atomic<uint32_t> &bell(int64_t rank) { return ofRank_[static_cast<size_t>(rank)].bell; }

private:
  struct alignas(64) OfRank {
    std::unique_ptr<Mailbox[]> boxes; ///< by sender
    std::atomic<uint32_t> bell{0};
  };
  const int64_t ranks_;
  std::vector<OfRank> ofRank_;
};

class MailboxLink final : public Link {
public:
  MailboxLink(Mailboxes &mailboxes, int64_t rank) : mailboxes_(mailboxes), rank_(rank) {}

  Status open(ControlPlane &control) override;
  bool isOpen() const override { return mailboxes_.isOpen(rank_); }
  Result<Advance> advance(Exchange &exchange) override;
  bool canAdvance(const Exchange &exchange) const override;
  void sleep(const Exchange &exchange, uint32_t bell, std::chrono::milliseconds slice) override;
  const std::atomic<uint32_t> &bell() const override { return mailboxes_.bell(rank_); }
  void withdraw(Exchange &exchange) override;

private:
  Mailbox &boxOf(const Transfer &transfer) const;
  void ring(int64_t peer);
  /// What is to be done for it can be done now. Reads the mailbox in that order.
  bool canMove(const Exchange &exchange, const Transfer &transfer, std::memory_order order) const;
  Status move(Transfer &transfer, const Tag &tag);
  Status begin(Transfer &transfer, const Tag &tag);
  void post(Transfer &transfer, const Tag &tag);
  Status accept(Transfer &transfer, const Tag &tag);
  void copy(Transfer &transfer);

  Mailboxes &mailboxes_;
  const int64_t rank_;
};

} // namespace braid
