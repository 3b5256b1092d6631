//===- runtime/plan/unread_parts.cpp - finds partial results that only a sum reads ------------===//

#include "runtime/plan/unread_parts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>

namespace braid {
namespace {

/// An index of ranges that finds overlaps.
class RangeIndex {
public:
  void add(const Range &range, size_t owner = 0) {
    if (range.bytes > 0)
      entries_.push_back({range, owner, 0});
  }

  /// Must be called after all ranges have been added.
  void sort() {
    llvm::sort(entries_, [](const Entry &a, const Entry &b) {
      return std::pair(a.range.buffer, a.range.offset) < std::pair(b.range.buffer, b.range.offset);
    });
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Range &range = entries_[i].range;
      const bool isFirst = i == 0 || entries_[i - 1].range.buffer != range.buffer;
      entries_[i].latestEnd =
          std::max(range.offset + range.bytes, isFirst ? 0 : entries_[i - 1].latestEnd);
    }
  }

  /// Calls `visit` with the owner of each range that overlaps `range`.
  template <class Visit> void forEachOverlap(const Range &range, Visit visit) const {
    auto next = llvm::partition_point(entries_, [&](const Entry &entry) {
      return std::pair(entry.range.buffer, entry.range.offset) <
             std::pair(range.buffer, range.offset + range.bytes);
    });
    while (next != entries_.begin() && (--next)->range.buffer == range.buffer &&
           next->latestEnd > range.offset)
      if (next->range.offset + next->range.bytes > range.offset)
        visit(next->owner);
  }

  bool overlaps(const Range &range) const {
    bool found = false;
    forEachOverlap(range, [&](size_t) { found = true; });
    return found;
  }

private:
  struct Entry {
    Range range;
    size_t owner;
    int64_t latestEnd; ///< the latest end of all ranges of the buffer up to this one
  };
  std::vector<Entry> entries_; ///< by buffer and offset
};

/// Returns the ranges that are read on this rank or by peers, except as parts of sums.
RangeIndex rangesRead(const Plan &plan) {
  RangeIndex read;
  for (const Command &command : plan.commands)
    forEachOperand(plan, command, [&](const Range &range, Access access, OperandRole role) {
      if (access == Access::Read && role != OperandRole::Part)
        read.add(range);
    });
  for (const Endpoint &endpoint : plan.endpoints)
    if (endpoint.direction == Direction::Send)
      read.add(endpoint.range);
  read.sort();
  return read;
}

/// Returns the parts of all sums. The owner of a part is the index of its sum.
RangeIndex partsOf(llvm::ArrayRef<PlanSum> sums) {
  RangeIndex parts;
  for (size_t i = 0; i < sums.size(); ++i)
    for (int64_t part = 0; part < sums[i].count; ++part)
      parts.add(sums[i].part(part), i);
  parts.sort();
  return parts;
}

} // namespace

void markUnreadParts(Plan &plan) {
  if (plan.sums.empty())
    return;
  const RangeIndex read = rangesRead(plan), parts = partsOf(plan.sums);
  for (PlanSum &sum : plan.sums)
    sum.keepsParts = false;
  for (const Command &command : plan.commands) {
    if (command.kind != CommandKind::Copy || command.dst.buffer == kPeerBuffer)
      continue;
    llvm::SmallVector<size_t> adding;
    parts.forEachOverlap(command.dst, [&](size_t sum) {
      if (!llvm::is_contained(adding, sum))
        adding.push_back(sum);
    });
    const bool isOutput = plan.buffers[command.dst.buffer].kind == BufferKind::Output;
    if (isOutput || adding.size() > 1 || read.overlaps(command.dst))
      for (size_t sum : adding)
        plan.sums[sum].keepsParts = true;
  }
}

} // namespace braid
