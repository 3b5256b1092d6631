//===- api/pairs/time_for_sizes.cpp - which sizes of a path are measured in its time ----------===//

#include "api/pairs/time_for_sizes.h"

#include "api/pairs/verdict_limits.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

/// Of what a size is expected to take.
constexpr double kScatter = 1.5, kScatterOfBytes = 1.125;
/// The largest of a few bytes is the smallest that says something about bandwidth.
bool isFew(int64_t bytes) { return bytes <= kLeastBytes; }
/// Of the time.
constexpr double kShareOfFew = 0.4;

} // namespace

TimeForSizes::TimeForSizes(std::vector<int64_t> sizes, double seconds)
    : sizes_(std::move(sizes)), seconds_(seconds),
      few_(static_cast<size_t>(llvm::count_if(sizes_, isFew))) {}

bool TimeForSizes::has(size_t index, double gone) const {
  if (index == 0)
    return true;
  if (isFew(sizes_[index]) && (few_ - 1 - index) % stride_ != 0)
    return false;
  return gone + expected(sizes_[index]) <= seconds_;
}

/// What does not depend on bytes is the time of a few; the rest grows with them.
double TimeForSizes::expected(int64_t bytes) const {
  const double begin = few_ == 0 ? 0 : first_;
  if (isFew(bytes))
    return kScatter * begin;
  const double growth = static_cast<double>(bytes) / static_cast<double>(sizes_[last_]);
  return kScatter * begin + kScatterOfBytes * growth * std::max(0.0, lastTook_ - begin);
}

void TimeForSizes::measured(size_t index, double seconds) {
  last_ = index;
  lastTook_ = seconds;
  if (index != 0)
    return;
  first_ = seconds;
  const double most = kShareOfFew * seconds_; // for all of a few bytes
  if (few_ >= 2 && most > 0)
    stride_ = static_cast<size_t>(std::clamp(std::ceil(static_cast<double>(few_) * seconds / most),
                                             1.0, static_cast<double>(few_)));
}

} // namespace braid
