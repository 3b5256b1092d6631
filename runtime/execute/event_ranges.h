//===- runtime/execute/event_ranges.h - events of programs that are gone, for those that come ===//
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace braid {

/// Knows which numbers of events are in use. Ranges are never divided, so they do not crumble.
class EventRanges {
public:
  /// The first of `count` numbers that were released before, if there are so many in a row.
  std::optional<uint32_t> reuse(uint32_t count) {
    const auto best = free_.lower_bound({count, 0});
    if (best == free_.end())
      return std::nullopt;
    const uint32_t first = best->second;
    free_.erase(best);
    return first;
  }
  /// New numbers, in use.
  void add(uint32_t first, uint32_t count) {
    if (count != 0)
      counts_[first] = count;
  }
  /// `first` is a range that reuse() returned or add() was given.
  void release(uint32_t first) {
    if (const auto found = counts_.find(first); found != counts_.end())
      free_.insert({found->second, first});
  }

private:
  std::unordered_map<uint32_t, uint32_t> counts_; ///< by first number
  std::set<std::pair<uint32_t, uint32_t>> free_;  ///< counts and first numbers
};

} // namespace braid
