//===- api/pairs/time_for_sizes.h - which sizes of a path are measured in its time ------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace braid {

/// Sizes of up to a mebibyte take about as long as the smallest: most of it is to begin and to
/// compare. So where time is short, most of these are left out, for large ones say what a link
/// brings. The smallest, which says its latency, never is; nor the last of the few bytes, if there
/// is time.
class TimeForSizes {
public:
  /// `sizes` ascend, in bytes.
  TimeForSizes(std::vector<int64_t> sizes, double seconds);

  /// Whether there is time for the size of that index, if `gone` seconds are over. In order.
  bool has(size_t index, double gone) const;
  /// So long it took.
  void measured(size_t index, double seconds);

private:
  bool isFew(size_t index) const { return index < few_; }

  std::vector<int64_t> sizes_;
  double seconds_;
  size_t few_;                  ///< sizes
  size_t stride_ = 1;           ///< between those of them that are measured
  double first_ = 0, last_ = 0; ///< sizes took so long
};

} // namespace braid
