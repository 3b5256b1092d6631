//===- backends/cpu/messages/mailboxes.cpp - messages between threads of one process ----------===//

#include "backends/cpu/messages/mailboxes.h"

#include "backends/cpu/messages/mismatch.h"
#include "ir/failure.h"
#include "runtime/job/futex.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <thread>

namespace braid {
namespace {

/// What is copied before progress is told.
constexpr int64_t kMostCopied = int64_t(16) << 20;

enum class Phase : uint32_t {
  Free,      ///< the sender may post the message
  Posted,    ///< the receiver may copy it
  Taken,     ///< the receiver is copying it
  Withdrawn, ///< after an abort: nobody may
};

/// Numbers wrap around, as the count of messages does in 30 bits.
uint32_t wordOf(uint32_t number, Phase phase) { return number << 2 | static_cast<uint32_t>(phase); }

/// What has to be in the mailbox for a transfer to go on.
uint32_t awaited(const Transfer &transfer) {
  const bool isSend = transfer.direction == Direction::Send;
  const uint32_t number = transfer.number;
  switch (transfer.state) {
  case Transfer::State::Waits:
    return wordOf(number, isSend ? Phase::Free : Phase::Posted);
  case Transfer::State::Moves:
    return isSend ? wordOf(number + 1, Phase::Free) : wordOf(number, Phase::Taken);
  case Transfer::State::IsOver:
    break;
  }
  llvm_unreachable("it waits for nothing");
}

} // namespace

void Mailboxes::open(int64_t rank) {
  OfRank &mine = ofRank_[static_cast<size_t>(rank)];
  if (!mine.boxes)
    mine.boxes = std::make_unique<Mailbox[]>(static_cast<size_t>(ranks_));
}

Status MailboxLink::open(ControlPlane &control) {
  mailboxes_.open(rank_);
  return control.allGather("mailboxes").status();
}

Mailbox &MailboxLink::boxOf(const Transfer &transfer) const {
  return transfer.direction == Direction::Send ? mailboxes_.between(rank_, transfer.peer)
                                               : mailboxes_.between(transfer.peer, rank_);
}

/// Relaxed: who sleeps learns nothing from it but that it should look. It looks again after a while
/// all the same, should it have seen the bell before the mailbox.
void MailboxLink::ring(int64_t peer) {
  std::atomic<uint32_t> &bell = mailboxes_.bell(peer);
  bell.fetch_add(1, std::memory_order_relaxed);
  futexWake(&bell);
}

Result<Advance> MailboxLink::advance(Exchange &exchange) {
  bool hasMoved = false;
  for (Transfer &transfer : exchange.transfers) {
    // Only what the other side has done for this message is learnt from it: that the mailbox is
    // free says something about an earlier one.
    const bool isPosting =
        transfer.direction == Direction::Send && transfer.state == Transfer::State::Waits;
    const auto order = isPosting ? std::memory_order_relaxed : std::memory_order_acquire;
    if (!canMove(exchange, transfer, order))
      continue;
    BRAID_TRY(move(transfer, exchange.tag));
    hasMoved = true;
  }
  if (exchange.isOver())
    return Advance::IsOver;
  return hasMoved ? Advance::Moved : Advance::Waits;
}

bool MailboxLink::canAdvance(const Exchange &exchange) const {
  return exchange.isOver() || llvm::any_of(exchange.transfers, [&](const Transfer &transfer) {
           return canMove(exchange, transfer, std::memory_order_relaxed);
         });
}

/// A message that were posted before its rank has seen that the one before it was taken would hide
/// that.
bool MailboxLink::canMove(const Exchange &exchange, const Transfer &transfer,
                          std::memory_order order) const {
  const bool isFirst =
      transfer.follows < 0 || exchange.transfers[static_cast<size_t>(transfer.follows)].isOver();
  return !transfer.isOver() && isFirst && boxOf(transfer).word.load(order) == awaited(transfer);
}

Status MailboxLink::move(Transfer &transfer, const Tag &tag) {
  if (transfer.state == Transfer::State::Waits)
    return begin(transfer, tag);
  if (transfer.direction == Direction::Send)
    transfer.state = Transfer::State::IsOver;
  else
    copy(transfer);
  return Status::ok();
}

Status MailboxLink::begin(Transfer &transfer, const Tag &tag) {
  if (transfer.direction == Direction::Receive)
    return accept(transfer, tag);
  post(transfer, tag);
  return Status::ok();
}

void MailboxLink::post(Transfer &transfer, const Tag &tag) {
  Mailbox &box = boxOf(transfer);
  box.data.store(transfer.data, std::memory_order_relaxed);
  box.bytes.store(transfer.bytes, std::memory_order_relaxed);
  box.plan.store(tag.plan, std::memory_order_relaxed);
  box.command.store(tag.command, std::memory_order_relaxed);
  box.run.store(tag.run, std::memory_order_relaxed);
  transfer.state = Transfer::State::Moves;
  box.word.store(wordOf(transfer.number, Phase::Posted), std::memory_order_release);
  ring(transfer.peer);
}

/// From here on the sender stays, even after an abort, until all is copied.
Status MailboxLink::accept(Transfer &transfer, const Tag &tag) {
  Mailbox &box = boxOf(transfer);
  const int64_t bytes = box.bytes.load(std::memory_order_relaxed);
  if (bytes != transfer.bytes) {
    const Tag sender{box.plan.load(std::memory_order_relaxed),
                     box.command.load(std::memory_order_relaxed),
                     box.run.load(std::memory_order_relaxed)};
    return mismatch({transfer.peer, describe(sender), bytes},
                    {rank_, describe(tag), transfer.bytes}, transfer.number);
  }
  uint32_t posted = wordOf(transfer.number, Phase::Posted);
  if (box.word.compare_exchange_strong(posted, wordOf(transfer.number, Phase::Taken),
                                       std::memory_order_acquire, std::memory_order_relaxed))
    transfer.state = Transfer::State::Moves;
  return Status::ok();
}

void MailboxLink::copy(Transfer &transfer) {
  Mailbox &box = boxOf(transfer);
  const int64_t bytes = std::min(kMostCopied, transfer.bytes - transfer.moved);
  if (bytes != 0)
    std::memmove(transfer.data + transfer.moved,
                 box.data.load(std::memory_order_relaxed) + transfer.moved,
                 static_cast<size_t>(bytes));
  transfer.moved += bytes;
  if (transfer.moved != transfer.bytes)
    return;
  transfer.state = Transfer::State::IsOver;
  box.word.store(wordOf(transfer.number + 1, Phase::Free), std::memory_order_release);
  ring(transfer.peer);
}

void MailboxLink::sleep(const Exchange &, uint32_t bell, std::chrono::milliseconds slice) {
  futexWait(&mailboxes_.bell(rank_), bell, slice);
}

/// What a peer has begun to copy it copies to the end, unless it is withdrawn from that itself.
void MailboxLink::withdraw(Exchange &exchange) {
  for (Transfer &transfer : exchange.transfers) {
    if (transfer.state != Transfer::State::Moves)
      continue;
    Mailbox &box = boxOf(transfer);
    uint32_t posted = wordOf(transfer.number, Phase::Posted);
    if (transfer.direction == Direction::Receive)
      box.word.store(wordOf(transfer.number, Phase::Withdrawn), std::memory_order_release);
    else if (!box.word.compare_exchange_strong(posted, wordOf(transfer.number, Phase::Withdrawn),
                                               std::memory_order_relaxed))
      while (box.word.load(std::memory_order_acquire) == wordOf(transfer.number, Phase::Taken))
        std::this_thread::yield();
  }
}

} // namespace braid
