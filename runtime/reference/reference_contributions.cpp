//===- runtime/reference/reference_contributions.cpp - the terms of one sum -------------------===//
#include "runtime/reference/reference_contributions.h"

#include "runtime/reference/reference_draw.h"

#include <algorithm>

namespace braid::reference {

namespace {

/// 121 + 15 + 14 + ... + 1 is 241: more terms that differ do not fit below 256.
constexpr int64_t kMost = 16;
/// A bit of a random number on which what below() gives hardly depends.
constexpr uint64_t kSignBit = uint64_t(1) << 32;

} // namespace

Contributions::Contributions(int64_t places, int64_t budget)
    : places_(places), nonzero_(std::min(places, kMost)) {
  const int64_t bands = nonzero_ - 1, inAllBands = nonzero_ * bands / 2;
  big_ = std::clamp<int64_t>((budget - inAllBands + 1) / 2, nonzero_, kMark);
  width_ = bands == 0 ? 0 : std::min((budget - 2 * big_ + 1) / inAllBands, (big_ - 1) / bands);
  width_ = std::max<int64_t>(1, width_);
}

void Contributions::draw(uint64_t random, uint64_t residue,
                         llvm::MutableArrayRef<int8_t> terms) const {
  std::fill(terms.begin(), terms.end(), int8_t(0));
  const int64_t others = drawSmall(random, terms.slice(1, nonzero_ - 1));
  const int64_t rest = static_cast<int64_t>(residue % static_cast<uint64_t>(big_)) - others;
  terms[0] = static_cast<int8_t>(big_ + (rest % big_ + big_) % big_);
}

/// The sum of what was drawn, which is not negative.
int64_t Contributions::drawSmall(uint64_t random, llvm::MutableArrayRef<int8_t> small) const {
  int64_t sum = 0, leastOfBand = 1;
  for (int8_t &term : small) {
    random = next(random);
    const int64_t magnitude = leastOfBand + static_cast<int64_t>(below(random, width_));
    term = static_cast<int8_t>(random & kSignBit ? magnitude : -magnitude);
    leastOfBand += width_;
    sum += term;
  }
  if (sum < 0)
    for (int8_t &term : small)
      term = static_cast<int8_t>(-term);
  return std::abs(sum);
}

} // namespace braid::reference
