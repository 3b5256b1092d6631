//===- backends/cpu/messages/transfer.h - what a group or a collective consists of ------------===//
#pragma once

#include "runtime/execute/messages.h"

#include <optional>
#include <vector>

namespace braid {

/// One side of a message. Of a rank's sends to a peer the n-th meets the peer's n-th receive.
struct Transfer {
  enum class State : uint8_t {
    Waits,  ///< for the other side
    Moves,  ///< the other side has come
    IsOver, ///< a send: its memory may be written again
  };
  Direction direction;
  int64_t peer;
  char *data; ///< null if it is scratch and the operation has not begun
  int64_t bytes;
  int64_t scratchAt = -1; ///< where in the operation's scratch; -1: not there
  uint32_t number = 0;    ///< n
  /// The one before it in its step with the same peer and direction; -1: none.
  int64_t follows = -1;
  State state = State::Waits;
  int64_t moved = 0; ///< bytes

  bool isOver() const { return state == State::IsOver; }
};

/// dst = the parts of all members, combined in the order of the team, in f32 (f64 for f64), and
/// rounded once.
struct Reduction {
  ReductionOperator by;
  DType dtype;
  void *dst;
  int64_t bytes;   ///< size of dst, and of each part
  size_t members;  ///< their parts follow one another in scratch, but for
  size_t self;     ///< this one's, which is
  const void *own; ///< here
};

/// Everything in a step happens at once; the next step begins when all of it is over.
struct Step {
  struct LocalCopy {
    void *dst;
    const void *src;
    int64_t bytes;
  };
  std::vector<Transfer> transfers;
  std::vector<LocalCopy> copies;      ///< at the end, as is
  std::optional<Reduction> reduction; ///< this
};

/// A group or a collective, as this rank does it.
struct Steps {
  std::vector<Step> steps; ///< at least one
  int64_t scratchBytes = 0;
};

/// An issued group or collective, kept for as long as it may be issued again.
struct IssuedMessages {
  std::vector<MessageArgs> group;
  std::optional<CollectiveArgs> collective; ///< instead; its team is
  Team team;                                ///< this
};

Steps stepsOf(const IssuedMessages &issued, int64_t rank);

/// `scratch`: that of the steps.
void reduce(const Reduction &reduction, const char *scratch);

} // namespace braid
