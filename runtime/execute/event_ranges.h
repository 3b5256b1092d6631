//===- runtime/execute/event_ranges.h - reuse of event numbers --------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace braid {

/// Tracks which event numbers are in use. Ranges are never split, so they do not fragment.
class EventRanges {
public:
  /// Returns the first number of a released range of at least `count` numbers, if one exists.
  std::optional<uint32_t> reuse(uint32_t count) {
    const auto best = free_.lower_bound({count, 0});
    if (best == free_.end())
      return std::nullopt;
    const uint32_t first = best->second;
    free_.erase(best);
    return first;
  }
  /// Adds a range of new numbers, initially in use.
  void add(uint32_t first, uint32_t count) {
    if (count != 0)
      counts_[first] = count;
  }
  /// Releases a range that reuse() returned or that was passed to add().
  void release(uint32_t first) {
    if (const auto found = counts_.find(first); found != counts_.end())
      free_.insert({found->second, first});
  }

private:
  std::unordered_map<uint32_t, uint32_t> counts_; ///< by first number
  std::set<std::pair<uint32_t, uint32_t>> free_;  ///< (count, first number)
};

} // namespace braid
