//===- backends/cpu/messages/operation.h - a group or a collective in progress ----------------===//
//
// A rank's operations execute in the order in which they were issued, regardless of their streams:
// each operation has a number and begins when its turn comes. The turn is passed on with relaxed
// stores, so that ThreadSanitizer considers two streams unordered unless an event orders them.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/messages/mailboxes.h"
#include "runtime/execute/messages.h"

#include <chrono>
#include <optional>
#include <vector>

namespace braid {

/// One side of a message. The n-th send to a peer matches the peer's n-th receive from this rank.
struct Transfer {
  enum class State : uint8_t {
    Waits,  ///< waits for the other side
    Moves,  ///< the other side is ready
    IsOver, ///< complete; a send's source may be overwritten
  };
  Direction direction;
  int64_t peer;
  char *data; ///< if in scratch memory, not set until the operation begins
  int64_t bytes;
  int64_t scratchAt = -1; ///< offset in the operation's scratch, or -1 if `data` is elsewhere
  uint32_t number = 0;    ///< message number, counted per peer and direction
  State state = State::Waits;
  int64_t moved = 0; ///< bytes moved so far

  bool sends() const { return direction == Direction::Send; }
  bool isOver() const { return state == State::IsOver; }
};

/// Combines the parts of all members into `dst`, in team order, and rounds once. Accumulates in f32
/// (in f64 for f64 parts). The parts, except `own`, are in scratch memory, also in team order.
struct Reduction {
  ReductionOperator by;
  DType dtype;
  void *dst;
  int64_t bytes; ///< size of dst and of each part
  size_t members, self;
  const void *own; ///< this rank's part
};

/// A rank's work for a group or collective: concurrent transfers, then a copy or a reduction.
struct Work {
  std::vector<Transfer> transfers;
  void *dst = nullptr;
  const void *src = nullptr; ///< this rank's own part, to be copied to dst
  int64_t bytes = 0;
  std::optional<Reduction> reduction = {};
};
Work workOf(llvm::ArrayRef<MessageArgs> group);
Work workOf(const CollectiveArgs &args, int64_t rank);

/// The outcome of Operation::advance().
enum class Advance : uint8_t { IsOver, Moved, Waits };

class Operation;

/// A rank's endpoint for all of its messages.
class MessageLink {
public:
  MessageLink(int64_t rank, int64_t ranks)
      : rank_(rank), sends_(static_cast<size_t>(ranks)), receives_(static_cast<size_t>(ranks)) {}

  /// Implements Messages::openTeams.
  Status open(ControlPlane &control);
  bool isOpen() const { return mailboxes_ != nullptr; }
  /// Creates an operation, and assigns numbers to it and its messages. Host thread only.
  std::unique_ptr<Operation> issue(Tag tag, Work work);

private:
  friend class Operation;
  const int64_t rank_;
  std::unique_ptr<Mailboxes> mailboxes_;   ///< null until opened
  std::vector<uint32_t> sends_, receives_; ///< number of messages so far, by peer
  uint32_t operations_ = 0;                ///< number of operations so far
  std::atomic<uint32_t> turn_{0};          ///< number of the operation that may proceed
};

/// A group or a collective in progress. Any of the rank's workers may execute it. A send is
/// complete when the receiver has received all of its data.
class Operation {
public:
  /// `link` must be open, and must outlive the operation.
  Operation(MessageLink &link, uint32_t number, Tag tag, Work work)
      : link_(link), number_(number), tag_(tag), work_(std::move(work)) {}

  /// Moves all data that can be moved without waiting. Fails with BadInput if the two sides of a
  /// message do not match. Throws std::bad_alloc if the scratch cannot be allocated.
  Result<Advance> advance();
  /// Returns true if advance() could make progress now.
  bool canAdvance();
  /// Sleeps until advance(), which has returned Waits, may make progress, for at most `slice`.
  void sleep(std::chrono::milliseconds slice);
  /// Returns the futex that sleep() waits on; its scope is FutexScope::Processes.
  const void *sleepsOn() const;

private:
  bool isItsTurn() const { return link_.turn_.load(std::memory_order_relaxed) == number_; }
  const std::atomic<uint32_t> &bell() const { return link_.mailboxes_->bell(link_.rank_); }
  Mailbox &boxOf(const Transfer &transfer) const;
  template <class Visit> void forEachNext(Visit visit);
  void begin();
  Status move(Transfer &transfer);
  void announce(const Transfer &transfer);
  Status check(const Transfer &transfer) const;
  void post(Transfer &transfer);
  void take(Transfer &transfer);
  void change(const Transfer &transfer, uint32_t state);
  void finish();

  MessageLink &link_;
  const uint32_t number_;
  const Tag tag_;
  Work work_;
  bool hasBegun_ = false, isOver_ = false;
  uint32_t bellSeen_ = 0; ///< value of the bell before the last advance()
  std::unique_ptr<char[]> scratch_;
};

} // namespace braid
