//===- runtime/tune/median.h - the usual one of several times ---------------------------------===//
#pragma once

#include <algorithm>
#include <vector>

namespace braid {

/// The median of at least one value. For an even number, the upper median.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace braid
