//===- runtime/reference/reference_pattern.cpp - inputs in which no error can hide ------------===//
#include "runtime/reference/reference_pattern.h"

#include "runtime/reference/reference_draw.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace braid::reference {

namespace {

/// No element of a group waits for a partner.
constexpr uint32_t kNobody = ~0u;

constexpr int8_t kWeights[3] = {1, -1, 2};

/// A colouring of 0 ... depth-1 with three colours, different for neighbours and for the two ends.
/// colour(k) == colour(k - 1) + 1 modulo 3 but for the last k where depth is 3q + 1.
uint32_t colour(int64_t k, int64_t depth) {
  if (depth % 3 == 1 && depth > 1 && k == depth - 1)
    return 1;
  return static_cast<uint32_t>(k % 3);
}

} // namespace

void InputPattern::row(uint32_t iteration, [[maybe_unused]] int64_t index,
                       llvm::MutableArrayRef<int8_t> out) const {
  assert(index == 0 && "the tensor is one row");
  std::fill(out.begin(), out.end(), int8_t(0));
  whole(iteration, [&](int64_t begin, llvm::ArrayRef<int8_t> values) {
    std::copy(values.begin(), values.end(), out.begin() + begin);
  });
}

void InputPattern::part(uint32_t iteration, int64_t rank, Sink sink) const {
  whole(iteration, [&](int64_t begin, llvm::ArrayRef<int8_t> values) {
    assert(values.size() == 1 && "contiguous here need not be contiguous on the rank");
    if (placement_.isOn(rank, begin))
      sink(placement_.localOf(begin), values);
  });
}

FirstPattern::FirstPattern(const Tensor &tensor, const Options &options)
    : InputPattern(tensor.placement), options_(options) {
  const auto rowShape = llvm::ArrayRef<int64_t>(tensor.global).drop_back(options.contractedAxes);
  const bool splitsDepth = tensor.deviceAxis && *tensor.deviceAxis >= rowShape.size();
  rows_ = Placement::of(rowShape, splitsDepth ? std::nullopt : tensor.deviceAxis);
  depth_ = placement_.globalElements() / rows_.globalElements();
  shards_ = splitsDepth ? placement_.devices : 1;
  // Groups are numbered without gaps, because the table of them is cleared for every row.
  std::vector<uint32_t> numbers(options.pairing * 3, kNobody);
  for (int64_t k = 0; k < depth_; ++k) {
    uint32_t &number = numbers[k % options.pairing * 3 + colour(k, depth_)];
    if (number == kNobody)
      number = groups_++;
    groupOf_.push_back(number);
  }
}

void FirstPattern::row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const {
  fill(iteration, rows_.deviceOf(index), rows_.localOf(index), out);
}

void FirstPattern::fill(uint32_t iteration, int64_t block, int64_t row,
                        llvm::MutableArrayRef<int8_t> out) const {
  const RowKey key{iteration, block, row};
  const uint64_t residue = key.residue() + options_.salt % kMark;
  const uint64_t place = key.place() + options_.salt % kMark;
  const int64_t markAt = static_cast<int64_t>(place % static_cast<uint64_t>(depth_));
  fillPairs(key.random(options_.salt), row % 2 != 0, markAt, out);
  out[markAt] = static_cast<int8_t>(kMark + residue % kMark);
}

/// Pairs are consecutive in their group, so that a sum over a range of k is small, too. Going
/// backwards in every other row moves the places without a partner from one end to the other.
void FirstPattern::fillPairs(uint64_t random, bool backwards, int64_t markAt,
                             llvm::MutableArrayRef<int8_t> out) const {
  llvm::SmallVector<uint32_t, 256> waiting(groups_, kNobody);
  for (int64_t step = 0; step < depth_; ++step) {
    const int64_t k = backwards ? depth_ - 1 - step : step;
    if (k == markAt)
      continue;
    uint32_t &partner = waiting[groupOf_[k]];
    if (partner != kNobody) {
      out[k] = static_cast<int8_t>(-out[partner]);
      partner = kNobody;
      continue;
    }
    out[k] = nextSmall(random);
    partner = static_cast<uint32_t>(k);
  }
  const int64_t markClass = markAt % options_.classes;
  for (uint32_t k : waiting)
    if (k != kNobody && (!options_.keepUnpaired || k % options_.classes == markClass))
      out[k] = 0;
}

void FirstPattern::whole(uint32_t iteration, Sink sink) const {
  std::vector<int8_t> values(depth_);
  for (int64_t r = 0; r < rows_.globalElements(); ++r) {
    row(iteration, r, values);
    sink(r * depth_, values);
  }
}

void FirstPattern::part(uint32_t iteration, int64_t rank, Sink sink) const {
  std::vector<int8_t> values(depth_);
  const llvm::ArrayRef<int8_t> all = values;
  const int64_t block = rows_.devices == 1 ? 0 : rank;
  const int64_t width = depth_ / shards_;
  for (int64_t r = 0; r < rows_.localElements(); ++r) {
    fill(iteration, block, r, values);
    sink(r * width, all.slice(shards_ == 1 ? 0 : rank * width, width));
  }
}

SecondPattern::SecondPattern(const Tensor &tensor, const Gemm &consumer, bool single, uint64_t salt)
    : InputPattern(tensor.placement), depth_(consumer.depth), columns_(consumer.columns),
      transposed_(consumer.transposed), single_(single), salt_(salt),
      columnPlacement_(consumer.columnPlacement) {}

int64_t SecondPattern::modulus() const {
  const int64_t local = columnPlacement_.localElements();
  return single_ || local >= depth_ ? 0 : local;
}

void SecondPattern::column(uint32_t iteration, int64_t n, EntrySink sink) const {
  const uint64_t step = modulus() ? modulus() : depth_;
  const uint64_t local = static_cast<uint64_t>(columnPlacement_.localOf(n));
  const uint64_t block = static_cast<uint64_t>(columnPlacement_.deviceOf(n));
  const uint64_t turn = local / step + block + iteration + salt_ % 3;
  const uint64_t shift = shiftOf(iteration + salt_ % kMark, step);
  for (uint64_t k = (local + shift) % step; k < uint64_t(depth_); k += step) {
    const int64_t at = static_cast<int64_t>(k);
    const int64_t global = transposed_ ? n * depth_ + at : at * columns_ + n;
    sink(global, single_ ? int8_t(1) : kWeights[(colour(at, depth_) + turn) % 3]);
  }
}

void SecondPattern::whole(uint32_t iteration, Sink sink) const {
  for (int64_t n = 0; n < columns_; ++n)
    column(iteration, n, [&](int64_t global, int8_t value) { sink(global, value); });
}

BiasPattern::BiasPattern(const Tensor &tensor, int64_t bound, bool mayBeZero, uint64_t salt)
    : InputPattern(tensor.placement), bound_(bound), mayBeZero_(mayBeZero), salt_(salt) {}

/// The steps, 4 and 5, have no divisor in common with the range: odd, or 26, 12, 8, 6, 4, 2.
int8_t BiasPattern::value(uint32_t iteration, int64_t n) const {
  const uint64_t range = static_cast<uint64_t>(2 * bound_ + (mayBeZero_ ? 1 : 0));
  const uint64_t step = mayBeZero_ ? 4 : 5;
  const uint64_t residue = (spread(n, range) + step * iteration + salt_ % kMark) % range;
  const int64_t value = static_cast<int64_t>(residue) - bound_;
  return static_cast<int8_t>(!mayBeZero_ && value >= 0 ? value + 1 : value);
}

void BiasPattern::whole(uint32_t iteration, Sink sink) const {
  for (int64_t n = 0; n < placement_.globalElements(); ++n)
    sink(n, value(iteration, n));
}

} // namespace braid::reference
