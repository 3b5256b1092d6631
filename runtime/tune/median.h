//===- runtime/tune/median.h - the median of several times ------------------------------------===//
#pragma once

#include <algorithm>
#include <vector>

namespace braid {

/// Returns the median, or the upper median of an even number of values. `values` is not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace braid
