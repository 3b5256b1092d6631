//===- backends/cpu/messages/operation.cpp - a group or a collective in progress --------------===//

#include "backends/cpu/messages/operation.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/futex.h"
#include "runtime/numeric.h"
#include "runtime/plan/collective_parts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallBitVector.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace braid {

//===- The work of an operation -------------------------------------------------------------===//

Work workOf(llvm::ArrayRef<MessageArgs> group) {
  Work work;
  for (const MessageArgs &message : group)
    work.transfers.push_back(
        {message.direction, message.peer, static_cast<char *>(message.data), message.bytes});
  return work;
}

Work workOf(const CollectiveArgs &args, int64_t rank) {
  enum : uint32_t { kDst, kSrc, kScratch };
  const PlanCollective collective{args.kind,
                                  args.reduction,
                                  args.dtype,
                                  args.team.vec(),
                                  args.root,
                                  {kDst, 0, args.dstBytes},
                                  {kSrc, 0, args.srcBytes}};
  const auto addressOf = [&](const Range &range) {
    const void *base = range.buffer == kDst ? args.dst : args.src;
    return static_cast<char *>(const_cast<void *>(base)) + range.offset;
  };
  const bool reduces = args.reduction.has_value();
  const std::vector<CollectivePart> parts =
      reduces ? partsToSum(collective, rank, kScratch) : partsOf(collective, rank);
  Work work;
  for (const CollectivePart &part : llvm::drop_begin(parts)) {
    if (part.send.bytes != 0)
      work.transfers.push_back({Direction::Send, part.peer, addressOf(part.send), part.send.bytes});
    if (const Range &range = part.receive; range.bytes != 0)
      work.transfers.push_back({Direction::Receive, part.peer, reduces ? nullptr : addressOf(range),
                                range.bytes, reduces ? range.offset : -1});
  }
  const CollectivePart &own = parts.front();
  if (reduces && own.receive.bytes != 0)
    work.reduction = Reduction{*args.reduction,    args.dtype,
                               args.dst,           args.dstBytes,
                               args.team.size(),   static_cast<size_t>(memberOf(collective, rank)),
                               addressOf(own.send)};
  else if (own.send.bytes != 0)
    std::tie(work.dst, work.src, work.bytes) =
        std::tuple(addressOf(own.receive), addressOf(own.send), own.send.bytes);
  return work;
}

namespace {

template <class Number> Number combine(ReductionOperator by, Number a, Number b) {
  switch (by) {
  case ReductionOperator::Sum:
    return a + b;
  case ReductionOperator::Product:
    return a * b;
  case ReductionOperator::Min:
    return std::min(a, b);
  case ReductionOperator::Max:
    return std::max(a, b);
  }
  llvm_unreachable("covered above");
}

void reduce(const Reduction &reduction, const char *scratch) {
  std::vector<const char *> parts(reduction.members);
  for (size_t member = 0; member < parts.size(); ++member)
    parts[member] = member == reduction.self
                        ? static_cast<const char *>(reduction.own)
                        : scratch + static_cast<int64_t>(member) * reduction.bytes;
  withElement(reduction.dtype, [&](auto element) {
    using Element = decltype(element);
    auto valueOf = [&](size_t member, int64_t i) {
      return widen(reinterpret_cast<const Element *>(parts[member])[i]);
    };
    auto *dst = static_cast<Element *>(reduction.dst);
    for (int64_t i = 0; i < reduction.bytes / sizeOf(reduction.dtype); ++i) {
      Accumulator<Element> value = valueOf(0, i);
      for (size_t member = 1; member < parts.size(); ++member)
        value = combine(reduction.by, value, valueOf(member, i));
      dst[i] = narrow<Element>(value);
    }
  });
}

//===- The state of a mailbox -----------------------------------------------------------------===//

enum class Phase : uint32_t {
  Free,   ///< the sender may post the first part of the message
  Posted, ///< the receiver may copy the part
  Wanted, ///< the sender may post the next part
};

/// Message numbers wrap around after 30 bits.
uint32_t stateOf(uint32_t number, Phase phase) {
  return number << 2 | static_cast<uint32_t>(phase);
}

uint32_t arrivedState(const Transfer &transfer) {
  return stateOf(transfer.number + 1, Phase::Free);
}

/// Returns true if the transfer can continue when the mailbox is in `state`.
bool isTurnOf(const Transfer &transfer, uint32_t state) {
  if (!transfer.sends())
    return state == stateOf(transfer.number, Phase::Posted);
  if (transfer.state == Transfer::State::Waits)
    return state == stateOf(transfer.number, Phase::Free);
  return state == stateOf(transfer.number, Phase::Wanted) || state == arrivedState(transfer);
}

size_t bytesOfPart(const Transfer &transfer) {
  return std::min(Mailbox::kPartBytes, static_cast<size_t>(transfer.bytes - transfer.moved));
}

/// Calls `copy` for each 8-byte word of a part; the last word may be shorter.
template <class Copy> void forEachWord(size_t bytes, Copy copy) {
  constexpr size_t kWord = sizeof(uint64_t);
  size_t i = 0;
  for (; (i + 1) * kWord <= bytes; ++i)
    copy(i, kWord);
  if (i * kWord < bytes)
    copy(i, bytes - i * kWord);
}

void copyIn(Mailbox &box, const char *from, size_t bytes) {
  forEachWord(bytes, [&](size_t i, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, from + i * sizeof word, count);
    box.part[i].store(word, std::memory_order_relaxed);
  });
}

void copyOut(const Mailbox &box, char *to, size_t bytes) {
  forEachWord(bytes, [&](size_t i, size_t count) {
    const uint64_t word = box.part[i].load(std::memory_order_relaxed);
    std::memcpy(to + i * sizeof word, &word, count);
  });
}

} // namespace

//===- A rank's messages ----------------------------------------------------------------------===//

Status MessageLink::open(ControlPlane &control) {
  if (!isOpen())
    mailboxes_ = BRAID_TRY(Mailboxes::share(control));
  return Status::ok();
}

std::unique_ptr<Operation> MessageLink::issue(Tag tag, Work work) {
  for (Transfer &transfer : work.transfers)
    transfer.number = (transfer.sends() ? sends_ : receives_)[static_cast<size_t>(transfer.peer)]++;
  return std::make_unique<Operation>(*this, operations_++, tag, std::move(work));
}

Mailbox &Operation::boxOf(const Transfer &transfer) const {
  return transfer.sends() ? link_.mailboxes_->between(link_.rank_, transfer.peer)
                          : link_.mailboxes_->between(transfer.peer, link_.rank_);
}

/// Visits the transfers that can continue. Messages to one peer are sequential, because posting a
/// message before its predecessor has arrived would overwrite the predecessor.
template <class Visit> void Operation::forEachNext(Visit visit) {
  llvm::SmallBitVector busy(static_cast<unsigned>(2 * link_.sends_.size()));
  for (Transfer &transfer : work_.transfers) {
    const auto way = static_cast<unsigned>(2 * transfer.peer + (transfer.sends() ? 1 : 0));
    if (transfer.isOver() || busy.test(way))
      continue;
    busy.set(way);
    // The load may order this rank only after the peer's actions for this message. Before the first
    // part is sent, the state was last written for an earlier message, so the load is relaxed.
    const bool isFirstPart = transfer.sends() && transfer.state == Transfer::State::Waits;
    const auto order = isFirstPart ? std::memory_order_relaxed : std::memory_order_acquire;
    if (isTurnOf(transfer, boxOf(transfer).state.load(order)))
      visit(transfer);
  }
}

Result<Advance> Operation::advance() {
  if (isOver_)
    return Advance::IsOver;
  if (!isItsTurn())
    return Advance::Waits;
  bellSeen_ = bell().load(std::memory_order_relaxed);
  if (!hasBegun_)
    begin();
  bool hasMoved = false;
  Status status;
  forEachNext([&](Transfer &transfer) {
    hasMoved = true;
    if (status.isOk())
      status = move(transfer);
  });
  if (!status.isOk())
    return status;
  if (!llvm::all_of(work_.transfers, [](const Transfer &each) { return each.isOver(); }))
    return hasMoved ? Advance::Moved : Advance::Waits;
  finish();
  return Advance::IsOver;
}

bool Operation::canAdvance() {
  if (!isItsTurn())
    return false;
  bool can = !hasBegun_;
  if (hasBegun_)
    forEachNext([&](const Transfer &) { can = true; });
  return can;
}

void Operation::begin() {
  hasBegun_ = true;
  if (const std::optional<Reduction> &reduction = work_.reduction)
    scratch_.reset(new char[reduction->members * static_cast<size_t>(reduction->bytes)]);
  for (Transfer &transfer : work_.transfers)
    if (transfer.scratchAt >= 0)
      transfer.data = scratch_.get() + transfer.scratchAt;
}

/// Computes the results, which may overwrite operands, because all peers have received their data.
void Operation::finish() {
  if (work_.bytes != 0)
    std::memmove(work_.dst, work_.src, static_cast<size_t>(work_.bytes));
  if (work_.reduction)
    reduce(*work_.reduction, scratch_.get());
  isOver_ = true;
  link_.turn_.store(number_ + 1, std::memory_order_relaxed);
  futexWake(&link_.turn_, FutexScope::Processes);
}

void Operation::sleep(std::chrono::milliseconds slice) {
  const uint32_t turn = link_.turn_.load(std::memory_order_relaxed);
  if (turn != number_)
    return futexWait(&link_.turn_, turn, slice, FutexScope::Processes);
  if (hasBegun_)
    futexWait(&bell(), bellSeen_, slice, FutexScope::Processes);
}

const void *Operation::sleepsOn() const {
  return isItsTurn() ? static_cast<const void *>(&bell()) : &link_.turn_;
}

Status Operation::move(Transfer &transfer) {
  const bool isFirstPart = transfer.state == Transfer::State::Waits;
  transfer.state = Transfer::State::Moves;
  if (!transfer.sends()) {
    if (isFirstPart)
      BRAID_TRY(check(transfer));
    take(transfer);
    return Status::ok();
  }
  if (boxOf(transfer).state.load(std::memory_order_relaxed) == arrivedState(transfer)) {
    transfer.state = Transfer::State::IsOver;
    return Status::ok();
  }
  if (isFirstPart)
    announce(transfer);
  post(transfer);
  return Status::ok();
}

void Operation::announce(const Transfer &transfer) {
  Mailbox &box = boxOf(transfer);
  const uint32_t first = tag_.plan ? tag_.plan->firstCommand : 0;
  box.bytes.store(transfer.bytes, std::memory_order_relaxed);
  box.command.store(first + tag_.command, std::memory_order_relaxed);
  box.run.store(tag_.run, std::memory_order_relaxed);
}

Status Operation::check(const Transfer &transfer) const {
  const Mailbox &box = boxOf(transfer);
  const int64_t sent = box.bytes.load(std::memory_order_relaxed);
  if (sent == transfer.bytes)
    return Status::ok();
  return badInput("message {} from rank {} to rank {}: the sizes sent and received must match, but "
                  "{} bytes are sent in command {}, run {}, and {} are received in {}",
                  transfer.number, transfer.peer, link_.rank_, sent,
                  box.command.load(std::memory_order_relaxed),
                  box.run.load(std::memory_order_relaxed), transfer.bytes, describe(tag_));
}

void Operation::post(Transfer &transfer) {
  const size_t bytes = bytesOfPart(transfer);
  copyIn(boxOf(transfer), transfer.data + transfer.moved, bytes);
  transfer.moved += static_cast<int64_t>(bytes);
  change(transfer, stateOf(transfer.number, Phase::Posted));
}

void Operation::take(Transfer &transfer) {
  const size_t bytes = bytesOfPart(transfer);
  copyOut(boxOf(transfer), transfer.data + transfer.moved, bytes);
  transfer.moved += static_cast<int64_t>(bytes);
  if (transfer.moved == transfer.bytes)
    transfer.state = Transfer::State::IsOver;
  change(transfer,
         transfer.isOver() ? arrivedState(transfer) : stateOf(transfer.number, Phase::Wanted));
}

/// The bell is relaxed, because it only tells a sleeping worker to check the state. The worker also
/// checks the state periodically, in case the bell becomes visible before the state.
void Operation::change(const Transfer &transfer, uint32_t state) {
  boxOf(transfer).state.store(state, std::memory_order_release);
  std::atomic<uint32_t> &bell = link_.mailboxes_->bell(transfer.peer);
  bell.fetch_add(1, std::memory_order_relaxed);
  futexWake(&bell, FutexScope::Processes);
}

} // namespace braid
