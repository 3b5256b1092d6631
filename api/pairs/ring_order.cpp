//===- api/pairs/ring_order.cpp - the fastest ring through some devices -----------------------===//

#include "api/pairs/ring_order.h"

#include <algorithm>
#include <tuple>

namespace braid {
namespace {

/// What a search climbs on: that fewer hops are the slowest is a step on the way to none being it.
struct RingScore {
  double slowest = 0;
  std::ptrdiff_t fewest = 0; ///< minus the number of hops that are as slow
  double sum = 0;

  bool isBetterThan(const RingScore &other) const {
    // Sums that are added up in another order differ in their last digits.
    constexpr double kSame = 1e-9;
    if (slowest != other.slowest || fewest != other.fewest)
      return std::tie(slowest, fewest) > std::tie(other.slowest, other.fewest);
    return sum > other.sum * (1 + kSame);
  }
};

RingScore scoreOf(const HopRates &rates, const std::vector<size_t> &ring) {
  RingScore score;
  for (size_t i = 0; i < ring.size(); ++i) {
    const double rate = rates.at(ring[i], ring[(i + 1) % ring.size()]);
    score.sum += rate;
    if (i == 0 || rate < score.slowest) {
      score.slowest = rate;
      score.fewest = 0;
    }
    score.fewest -= rate == score.slowest;
  }
  return score;
}

/// All rings from the lowest member on, in the order of their numbers, so that the first of equal
/// ones stays.
std::vector<size_t> bestOfAll(const HopRates &rates, std::vector<size_t> ring) {
  auto isBetter = [](const RingRate &a, const RingRate &b) {
    constexpr double kSame = 1e-9;
    return a.slowest != b.slowest ? a.slowest > b.slowest : a.sum > b.sum * (1 + kSame);
  };
  std::vector<size_t> best = ring;
  RingRate most = rateOf(rates, best);
  while (std::next_permutation(ring.begin() + 1, ring.end()))
    if (const RingRate rate = rateOf(rates, ring); isBetter(rate, most)) {
      most = rate;
      best = ring;
    }
  return best;
}

/// From the lowest member on, always to the nearest of the rest.
std::vector<size_t> nearestNext(const HopRates &rates, std::vector<size_t> ring) {
  for (size_t i = 0; i + 1 < ring.size(); ++i) {
    const size_t from = ring[i];
    const auto rest = ring.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    auto nearest = std::max_element(rest, ring.end(), [&](size_t a, size_t b) {
      return rates.at(from, a) < rates.at(from, b);
    });
    // The rest stays in order, so that among equals the lowest is next.
    std::rotate(rest, nearest, nearest + 1);
  }
  return ring;
}

class RingSearch {
public:
  RingSearch(const HopRates &rates, std::vector<size_t> ring)
      : rates_(rates), ring_(std::move(ring)), score_(scoreOf(rates, ring_)) {}

  void run() {
    // A sweep looks at all changes of two places; a ring of 64 is settled after a few.
    constexpr int kMostSweeps = 12;
    for (int sweep = 0; sweep < kMostSweeps && sweepOnce(); ++sweep) {
    }
  }
  const std::vector<size_t> &ring() const { return ring_; }
  const RingScore &score() const { return score_; }

private:
  bool sweepOnce() {
    bool isImproved = false;
    for (size_t i = 1; i < ring_.size(); ++i)
      for (size_t j = i + 1; j < ring_.size(); ++j)
        isImproved |= tryReversal(i, j) || tryExchange(i, j) || tryMoves(i, j);
    return isImproved;
  }
  auto place(size_t i) { return ring_.begin() + static_cast<std::ptrdiff_t>(i); }

  bool keepIfBetter() {
    const RingScore score = scoreOf(rates_, ring_);
    if (!score.isBetterThan(score_))
      return false;
    score_ = score;
    return true;
  }
  bool tryReversal(size_t i, size_t j) {
    std::reverse(place(i), place(j + 1));
    if (keepIfBetter())
      return true;
    std::reverse(place(i), place(j + 1));
    return false;
  }
  bool tryExchange(size_t i, size_t j) {
    std::swap(ring_[i], ring_[j]);
    if (keepIfBetter())
      return true;
    std::swap(ring_[i], ring_[j]);
    return false;
  }
  /// One device to the other place, to either side.
  bool tryMoves(size_t i, size_t j) {
    std::rotate(place(i), place(i + 1), place(j + 1));
    if (keepIfBetter())
      return true;
    std::rotate(place(i), place(j), place(j + 1));
    std::rotate(place(i), place(j), place(j + 1));
    if (keepIfBetter())
      return true;
    std::rotate(place(i), place(i + 1), place(j + 1));
    return false;
  }

  const HopRates &rates_;
  std::vector<size_t> ring_;
  RingScore score_;
};

std::vector<size_t> bestFound(const HopRates &rates, const std::vector<size_t> &members) {
  RingSearch byNumber(rates, members), byNearest(rates, nearestNext(rates, members));
  byNumber.run();
  byNearest.run();
  return byNearest.score().isBetterThan(byNumber.score()) ? byNearest.ring() : byNumber.ring();
}

} // namespace

RingRate rateOf(const HopRates &rates, const std::vector<size_t> &ring) {
  const RingScore score = scoreOf(rates, ring);
  return {score.slowest, score.sum};
}

std::vector<size_t> fastestRing(const HopRates &rates, std::vector<size_t> members,
                                size_t exactUpTo) {
  std::sort(members.begin(), members.end());
  if (members.size() < 3)
    return members;
  return members.size() <= exactUpTo ? bestOfAll(rates, std::move(members))
                                     : bestFound(rates, members);
}

} // namespace braid
