//===- runtime/check/access.h - the bytes an event touches ------------------------------------===//
#pragma once

#include "runtime/check/history.h"

#include "llvm/ADT/SmallVector.h"

namespace braid::checker {

/// A byte-addressed memory of one rank.
struct Memory {
  uint32_t rank;
  BufferKind kind;
  uint32_t number; ///< the parameter's number if the memory is the caller's; else 0
  auto operator<=>(const Memory &) const = default;
};

/// A value for each memory of a rank, which has few.
template <class T> class PerMemory {
public:
  T &operator[](const Memory &memory) {
    for (auto &[known, value] : values_)
      if (known == memory)
        return value;
    return values_.emplace_back(memory, T()).second;
  }

private:
  std::vector<std::pair<Memory, T>> values_;
};

/// Bytes [begin, end) of a memory, as part of a buffer.
struct Place {
  Memory memory;
  uint32_t buffer; ///< index in the Plan of memory.rank
  int64_t begin, end;
};

/// The bytes that both have, as part of the buffer of `a`.
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
/// Reads are listed first; empty ranges are left out.
Operands operandsOf(const Plan &plan, const Command &command);

/// The place of bytes in one of a rank's own buffers.
Place placeOf(const Plan &plan, const Range &range);
/// The place of a range of a rank's Plan. A peer's side is looked up in the peer's Plan.
Place placeOf(const History &history, const Event &event, const Range &range, uint32_t endpoint);
/// Everything an event reads and writes, reads first; without `withPeers` in its own rank's memory
/// only. The caller writes inputs and reads outputs; handing over an output counts as a write, and
/// so does the end of a buffer's life.
Accesses accessesOf(const History &history, const Event &event, bool withPeers = true);
/// "%A_all of rank 2, bytes [0 .. 64)"
std::string str(const History &history, const Place &place);

} // namespace braid::checker
