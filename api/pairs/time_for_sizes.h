//===- api/pairs/time_for_sizes.h - which sizes of a path are measured in its time ------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace braid {

/// Sizes of up to a mebibyte take about as long as the smallest: most of that is to begin and to
/// compare. So where time is short, most of them are left out, for large ones say what a link
/// brings. The smallest, which says its latency, never is.
class TimeForSizes {
public:
  /// `sizes` ascend, in bytes; there are `seconds` for all.
  TimeForSizes(std::vector<int64_t> sizes, double seconds);

  /// Whether there is time for the size of that index, if `gone` seconds are over. `index` rises
  /// from call to call.
  bool has(size_t index, double gone) const;
  /// Behind each that was measured, and took so many seconds.
  void measured(size_t index, double seconds);

private:
  double expected(int64_t bytes) const;

  std::vector<int64_t> sizes_;
  double seconds_;
  size_t few_;                      ///< sizes of up to a mebibyte
  size_t stride_ = 1;               ///< one of so many of them is measured
  size_t last_ = 0;                 ///< size that was measured
  double first_ = 0, lastTook_ = 0; ///< seconds, of the smallest size and of that one
};

} // namespace braid
