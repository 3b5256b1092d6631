//===- api/pairs/ring_order.h - the fastest ring through some devices -------------------------===//
#pragma once

#include <cstddef>
#include <vector>

namespace braid {

/// Rates of hops: row-major, by source and then destination; 0: the hop cannot be used.
class HopRates {
public:
  explicit HopRates(size_t devices) : devices_(devices), rates_(devices * devices) {}
  size_t devices() const { return devices_; }
  double &at(size_t source, size_t destination) { return rates_[source * devices_ + destination]; }
  double at(size_t source, size_t destination) const {
    return rates_[source * devices_ + destination];
  }

private:
  size_t devices_;
  std::vector<double> rates_;
};

/// The ring's slowest hop, and the sum of its hops; larger is better, in this order.
struct RingRate {
  double slowest = 0, sum = 0;
};
RingRate rateOf(const HopRates &rates, const std::vector<size_t> &ring);

/// The ring through all of `members` whose slowest hop is fastest, and of those, whose sum is
/// largest; it begins with the lowest member. Up to `exactUpTo` members all rings are tried; for
/// more, reversals, moves and exchanges improve one, a bounded number of times.
std::vector<size_t> fastestRing(const HopRates &rates, std::vector<size_t> members,
                                size_t exactUpTo = 8);

} // namespace braid
