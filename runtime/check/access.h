//===- runtime/check/access.h - the bytes that an event accesses ------------------------------===//
#pragma once

#include "runtime/check/history.h"

#include "llvm/ADT/SmallVector.h"

namespace braid::checker {

/// A byte-addressable memory on one rank: an arena, or one of the caller's tensors.
struct Memory {
  uint32_t rank;
  BufferKind kind;
  uint32_t number; ///< parameter index if the caller owns the memory, otherwise 0
  auto operator<=>(const Memory &) const = default;
};

/// Bytes [begin, end) of a memory, all of which belong to one buffer.
struct Place {
  Memory memory;
  uint32_t buffer; ///< index in the Plan of memory.rank
  int64_t begin, end;
};

/// Returns the intersection of two places, attributed to the buffer of `a`.
std::optional<Place> common(const Place &a, const Place &b);

struct Access {
  Place place;
  bool isWrite;
};
using Accesses = llvm::SmallVector<Access, 4>;

/// A range that a command reads or writes.
struct Operand {
  Range range;
  bool isWrite;

  bool isPeers() const { return range.buffer == kPeerBuffer; }
};
using Operands = llvm::SmallVector<Operand, 4>;
/// Returns the command's operands, reads first, omitting empty ranges.
Operands operandsOf(const Plan &plan, const Command &command);

/// Returns the place of a range in one of the rank's local buffers.
Place placeOf(const Plan &plan, const Range &range);
/// Returns the place of a range that an event accesses, which may be in its peer's memory.
Place placeOf(const History &history, const Event &event, const Range &range, uint32_t endpoint);
/// Returns all accesses of an event, reads first, omitting those to peer memory unless `withPeers`.
/// Before a run, the caller writes the inputs and may clear the outputs; afterwards, it reads the
/// outputs. The end of a buffer's lifetime counts as a write.
Accesses accessesOf(const History &history, const Event &event, bool withPeers = true);
/// Formats a place, for example "%A_all of rank 2, bytes [0 .. 64)".
std::string str(const History &history, const Place &place);

} // namespace braid::checker
