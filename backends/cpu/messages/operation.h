//===- backends/cpu/messages/operation.h - a group or a collective under way ------------------===//
//
// Operations of a rank follow one another in the order in which they were issued, whatever streams
// they are on: each has a number, and begins when the turn is its own. The turn is passed on by
// relaxed stores: it orders nothing in the eyes of ThreadSanitizer, to which two streams without an
// event between them have to look unordered.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/messages/mailboxes.h"

#include <memory>

namespace braid {

class Operation {
public:
  /// `link` and `turn`, the number of the operation that may go on, outlive it.
  Operation(MessageLink &link, std::atomic<uint32_t> &turn, uint32_t number, Tag tag, Steps steps)
      : link_(link), turn_(turn), number_(number), steps_(std::move(steps)), tag_(tag) {}

  /// Moves what can be moved without waiting. Throws std::bad_alloc if there is no memory for
  /// scratch.
  Result<Advance> advance();
  /// As MessageLink::canAdvance.
  bool canAdvance() const;
  /// Sleeps, after an advance() that found nothing to move, until something may; at most for
  /// `slice`.
  void sleep(std::chrono::milliseconds slice);
  /// The futex on which it sleeps, of FutexScope::Processes.
  const void *sleepsOn() const;

private:
  bool isItsTurn() const { return turn_.load(std::memory_order_relaxed) == number_; }
  void begin();
  void finish(const Step &step);

  MessageLink &link_;
  std::atomic<uint32_t> &turn_;
  const uint32_t number_;
  Steps steps_;
  const Tag tag_;
  size_t current_ = 0;               ///< step
  uint32_t bellSeen_ = 0;            ///< before the last advance()
  std::optional<Exchange> exchange_; ///< the current step's; nothing: it has not begun
  std::unique_ptr<char[]> scratch_;
};

/// Makes the operations of one rank, and numbers them and their messages. Of the host thread.
class OperationMaker {
public:
  OperationMaker(MessageLink &link, int64_t rank, int64_t ranks)
      : link_(link), rank_(rank), sends_(static_cast<size_t>(ranks)),
        receives_(static_cast<size_t>(ranks)) {}
  std::unique_ptr<Operation> make(Tag tag, const IssuedMessages &issued);

private:
  void number(Step &step);

  MessageLink &link_;
  const int64_t rank_;
  std::vector<uint32_t> sends_, receives_; ///< so far, by peer
  uint32_t operations_ = 0;
  std::atomic<uint32_t> turn_{0};
};

} // namespace braid
