//===- backends/cpu/messages/mailboxes.cpp - messages between ranks of one machine ------------===//

#include "backends/cpu/messages/mailboxes.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/futex.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

namespace braid {

// -- Mailboxes. --

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct alignas(64) Bell {
  std::atomic<uint32_t> rings;
};

} // namespace

/// In front of a bell for each rank, and a mailbox for each pair of ranks.
struct alignas(64) Mailboxes::Header {
  uint64_t number;
  Bell *bells() { return reinterpret_cast<Bell *>(this + 1); }
};

size_t Mailboxes::bytes(int64_t ranks) {
  const auto count = static_cast<size_t>(ranks);
  return sizeof(Header) + count * sizeof(Bell) + count * count * sizeof(Mailbox);
}

Result<std::shared_ptr<Mailboxes>> Mailboxes::mapped(FileDescriptor descriptor, int64_t ranks) {
  void *address =
      mmap(nullptr, bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED)
    return unsupported("cannot map memory for messages between {} ranks", ranks);
  return std::shared_ptr<Mailboxes>(new Mailboxes(std::move(descriptor), address, ranks));
}

Result<std::shared_ptr<Mailboxes>> Mailboxes::create(int64_t ranks) {
  FileDescriptor descriptor(memfd_create("braid-messages", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.isValid() || ftruncate(descriptor.get(), static_cast<off_t>(bytes(ranks))) != 0 ||
      fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0)
    return unsupported("cannot make memory for messages between {} ranks", ranks);
  auto made = BRAID_TRY(mapped(std::move(descriptor), ranks));
  if (getrandom(&made->header_->number, sizeof(uint64_t), 0) != sizeof(uint64_t))
    return unsupported("cannot draw a random number");
  return made;
}

Result<std::shared_ptr<Mailboxes>> Mailboxes::map(FileDescriptor descriptor, int64_t ranks,
                                                  uint64_t number) {
  struct stat info;
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(descriptor.get(), &info) != 0 ||
      static_cast<size_t>(info.st_size) != bytes(ranks))
    return badInput("expected memory for messages between {} ranks, got another file", ranks);
  auto other = BRAID_TRY(mapped(std::move(descriptor), ranks));
  if (other->number() != number)
    return badInput("expected the messages of this job, got those of another one");
  return other;
}

Mailboxes::~Mailboxes() { munmap(header_, bytes(ranks_)); }

uint64_t Mailboxes::number() const { return header_->number; }

std::atomic<uint32_t> &Mailboxes::bell(int64_t rank) { return header_->bells()[rank].rings; }

Mailbox &Mailboxes::between(int64_t from, int64_t to) {
  auto *boxes = reinterpret_cast<Mailbox *>(header_->bells() + ranks_);
  return boxes[to * ranks_ + from];
}

// -- The state of a mailbox. --

namespace {

enum class Phase : uint32_t {
  Free,   ///< the sender may post the first part of the message
  Posted, ///< the receiver may take the part
  Wanted, ///< the sender may post the next part
};

/// Numbers wrap around, as the count of messages does in 30 bits.
uint32_t stateOf(uint32_t number, Phase phase) {
  return number << 2 | static_cast<uint32_t>(phase);
}

uint32_t arrivedState(const Transfer &transfer) {
  return stateOf(transfer.number + 1, Phase::Free);
}

bool isSend(const Transfer &transfer) { return transfer.direction == Direction::Send; }

/// The state in which the transfer goes on.
bool isTurnOf(const Transfer &transfer, uint32_t state) {
  if (!isSend(transfer))
    return state == stateOf(transfer.number, Phase::Posted);
  if (transfer.state == Transfer::State::Waits)
    return state == stateOf(transfer.number, Phase::Free);
  return state == stateOf(transfer.number, Phase::Wanted) || state == arrivedState(transfer);
}

size_t bytesOfPart(const Transfer &transfer) {
  return std::min(Mailbox::kPartBytes, static_cast<size_t>(transfer.bytes - transfer.moved));
}

/// A part is copied in words of 8 bytes; the last one may be shorter.
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

// -- A rank's messages. --

namespace {

/// "\"p2p send ...\" at ag.braid:3:4, run 2".
std::string describe(const Tag &tag) {
  const bool isKnown = tag.plan && tag.command < tag.plan->commands.size();
  return fmt::format("{}, run {}",
                     isKnown ? describeOrigin(*tag.plan, tag.plan->commands[tag.command].origin)
                             : "a command of no plan",
                     tag.run);
}

} // namespace

Status MessageLink::open() {
  if (!isOpen())
    mailboxes_ = BRAID_TRY(open_());
  return Status::ok();
}

Mailbox &MessageLink::boxOf(const Transfer &transfer) const {
  return isSend(transfer) ? mailboxes_->between(rank_, transfer.peer)
                          : mailboxes_->between(transfer.peer, rank_);
}

Result<Advance> MessageLink::advance(Exchange &exchange) {
  bool hasMoved = false;
  for (Transfer &transfer : exchange.transfers) {
    // A rank learns only what its peer has done for this message. That the mailbox is free was
    // done for an earlier one.
    const bool isFirstPart = isSend(transfer) && transfer.state == Transfer::State::Waits;
    if (!canMove(exchange, transfer,
                 isFirstPart ? std::memory_order_relaxed : std::memory_order_acquire))
      continue;
    BRAID_TRY(move(transfer, exchange.tag));
    hasMoved = true;
  }
  if (exchange.isOver())
    return Advance::IsOver;
  return hasMoved ? Advance::Moved : Advance::Waits;
}

bool MessageLink::canAdvance(const Exchange &exchange) const {
  return exchange.isOver() || llvm::any_of(exchange.transfers, [&](const Transfer &transfer) {
           return canMove(exchange, transfer, std::memory_order_relaxed);
         });
}

/// Messages to one peer follow one another: a sender that posts a message before it has seen that
/// the one before it has arrived would overwrite that.
bool MessageLink::canMove(const Exchange &exchange, const Transfer &transfer,
                          std::memory_order order) const {
  const bool isFirst =
      transfer.follows < 0 || exchange.transfers[static_cast<size_t>(transfer.follows)].isOver();
  return !transfer.isOver() && isFirst && isTurnOf(transfer, boxOf(transfer).state.load(order));
}

Status MessageLink::move(Transfer &transfer, const Tag &tag) {
  const bool isFirstPart = transfer.state == Transfer::State::Waits;
  transfer.state = Transfer::State::Moves;
  if (!isSend(transfer)) {
    if (isFirstPart)
      BRAID_TRY(check(transfer, tag));
    take(transfer);
    return Status::ok();
  }
  if (boxOf(transfer).state.load(std::memory_order_relaxed) == arrivedState(transfer)) {
    transfer.state = Transfer::State::IsOver;
    return Status::ok();
  }
  if (isFirstPart)
    announce(transfer, tag);
  post(transfer);
  return Status::ok();
}

void MessageLink::announce(const Transfer &transfer, const Tag &tag) {
  Mailbox &box = boxOf(transfer);
  const uint32_t first = tag.plan ? tag.plan->firstCommand : 0;
  box.bytes.store(transfer.bytes, std::memory_order_relaxed);
  box.command.store(first + tag.command, std::memory_order_relaxed);
  box.run.store(tag.run, std::memory_order_relaxed);
}

Status MessageLink::check(const Transfer &transfer, const Tag &tag) const {
  const Mailbox &box = boxOf(transfer);
  const int64_t sent = box.bytes.load(std::memory_order_relaxed);
  if (sent == transfer.bytes)
    return Status::ok();
  return badInput("message {} from rank {} to rank {}: expected as many bytes to be sent as "
                  "received, got {} sent in command {}, run {} and {} received in {}",
                  transfer.number, transfer.peer, rank_, sent,
                  box.command.load(std::memory_order_relaxed),
                  box.run.load(std::memory_order_relaxed), transfer.bytes, describe(tag));
}

void MessageLink::post(Transfer &transfer) {
  const size_t bytes = bytesOfPart(transfer);
  copyIn(boxOf(transfer), transfer.data + transfer.moved, bytes);
  transfer.moved += static_cast<int64_t>(bytes);
  change(transfer, stateOf(transfer.number, Phase::Posted));
}

void MessageLink::take(Transfer &transfer) {
  const size_t bytes = bytesOfPart(transfer);
  copyOut(boxOf(transfer), transfer.data + transfer.moved, bytes);
  transfer.moved += static_cast<int64_t>(bytes);
  if (transfer.moved == transfer.bytes)
    transfer.state = Transfer::State::IsOver;
  change(transfer,
         transfer.isOver() ? arrivedState(transfer) : stateOf(transfer.number, Phase::Wanted));
}

/// The bell is relaxed: a worker that sleeps learns nothing from it but that it should look. It
/// looks again after a while anyway, in case it has seen the bell before the state.
void MessageLink::change(const Transfer &transfer, uint32_t state) {
  boxOf(transfer).state.store(state, std::memory_order_release);
  std::atomic<uint32_t> &bell = mailboxes_->bell(transfer.peer);
  bell.fetch_add(1, std::memory_order_relaxed);
  futexWake(&bell, FutexScope::Processes);
}

} // namespace braid
