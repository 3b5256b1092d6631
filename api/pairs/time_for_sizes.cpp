//===- api/pairs/time_for_sizes.cpp - which sizes of a path are measured in its time ----------===//

#include "api/pairs/time_for_sizes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

/// What does not depend on bytes takes as long as the smallest size does; the rest, of four times
/// as many bytes, at most four times as long.
constexpr double kGrowth = 4.5, kScatter = 1.5;
constexpr int64_t kFewBytes = int64_t(1) << 20;
/// Of the time.
constexpr double kShareOfFew = 0.4;

} // namespace

TimeForSizes::TimeForSizes(std::vector<int64_t> sizes, double seconds)
    : sizes_(std::move(sizes)), seconds_(seconds),
      few_(static_cast<size_t>(
          llvm::count_if(sizes_, [](int64_t bytes) { return bytes <= kFewBytes; }))) {}

bool TimeForSizes::has(size_t index, double gone) const {
  if (index == 0)
    return true;
  if (isFew(index) && (few_ - 1 - index) % stride_ != 0)
    return false;
  const double ofBytes = isFew(index) ? 0 : kGrowth * std::max(0.0, last_ - first_);
  return gone + kScatter * first_ + ofBytes <= seconds_;
}

void TimeForSizes::measured(size_t index, double seconds) {
  last_ = seconds;
  if (index != 0)
    return;
  first_ = seconds;
  if (few_ < 2)
    return;
  const double share = static_cast<double>(few_) * seconds / (kShareOfFew * seconds_);
  stride_ = static_cast<size_t>(std::clamp(std::ceil(share), 1.0, static_cast<double>(few_)));
}

} // namespace braid
