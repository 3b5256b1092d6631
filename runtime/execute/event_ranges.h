//===- runtime/execute/event_ranges.h - events of programs that are gone, for those that come ===//
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace braid {

/// Knows which numbers of events are in use. Ranges are never divided, so they do not crumble.
class EventRanges {
public:
  /// The first of `count` numbers that were released before, if there are so many in a row.
  std::optional<uint32_t> reuse(uint32_t count) {
    Range *best = nullptr;
    for (Range &range : ranges_)
      if (range.isFree && range.count >= count && (!best || range.count < best->count))
        best = &range;
    if (!best)
      return std::nullopt;
    best->isFree = false;
    return best->first;
  }
  /// New numbers, in use.
  void add(uint32_t first, uint32_t count) {
    if (count != 0)
      ranges_.push_back({first, count, false});
  }
  /// What reuse() returned or add() was told.
  void release(uint32_t first) {
    for (Range &range : ranges_)
      range.isFree |= range.first == first;
  }

private:
  struct Range {
    uint32_t first, count;
    bool isFree;
  };
  std::vector<Range> ranges_;
};

} // namespace braid
