//===- runtime/reference/reference_function_pattern.cpp - inputs of pointwise functions -------===//
#include "runtime/reference/reference_function_pattern.h"

#include "runtime/reference/reference_draw.h"

#include <algorithm>

namespace braid::reference {

int farExponent(DType dtype) { return dtype == DType::F64 ? 10 : dtype == DType::F16 ? 5 : 7; }

DrawnPattern::DrawnPattern(const Tensor &tensor, int64_t rowWidth, uint64_t salt, int exponent)
    : InputPattern(tensor.placement, exponent), rowWidth_(rowWidth), salt_(salt) {}

/// Two bits of a number that 32 neighbours share.
int8_t DrawnPattern::at(uint32_t iteration, int64_t global) const {
  const uint64_t index = static_cast<uint64_t>(global);
  const uint64_t drawn = splitMix(splitMix(salt_ + iteration) + index / 32) >> (index % 32 * 2);
  const int8_t magnitude = drawn & 2 ? 2 : 1;
  return drawn & 1 ? magnitude : static_cast<int8_t>(-magnitude);
}

void DrawnPattern::row(uint32_t iteration, int64_t index, llvm::MutableArrayRef<int8_t> out) const {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = at(iteration, index * rowWidth_ + static_cast<int64_t>(i));
}

void DrawnPattern::whole(uint32_t iteration, Sink sink) const {
  std::vector<int8_t> values(rowWidth_);
  for (int64_t begin = 0; begin < placement_.globalElements(); begin += rowWidth_) {
    row(iteration, begin / rowWidth_, values);
    sink(begin, values);
  }
}

void DrawnPattern::part(uint32_t iteration, int64_t rank, Sink sink) const {
  const int64_t device = placement_.devices == 1 ? 0 : rank;
  std::vector<int8_t> values(placement_.inner);
  for (int64_t outer = 0; outer < placement_.outer; ++outer) {
    const int64_t begin = (outer * placement_.devices + device) * placement_.inner;
    for (int64_t i = 0; i < placement_.inner; ++i)
      values[i] = at(iteration, begin + i);
    sink(outer * placement_.inner, values);
  }
}

FewEntriesPattern::FewEntriesPattern(const Tensor &tensor, const Gemm &consumer, int64_t entries,
                                     uint64_t salt, int exponent)
    : InputPattern(tensor.placement, exponent), consumer_(consumer), entries_(entries),
      apart_(consumer.shardDepth() / entries), salt_(salt) {}

void FewEntriesPattern::whole(uint32_t iteration, Sink sink) const {
  const int64_t depth = consumer_.shardDepth();
  const auto shift =
      int64_t(shiftOf(3 * uint64_t(iteration) + salt_ % kMark, static_cast<uint64_t>(apart_)));
  for (int64_t n = 0; n < consumer_.columns; ++n)
    for (int64_t shard = 0; shard < consumer_.shards; ++shard)
      for (int64_t entry = 0; entry < entries_; ++entry) {
        const int64_t k = shard * depth + (n + 7 * shard + shift + entry * apart_) % depth;
        const int64_t global =
            consumer_.transposed ? n * consumer_.depth + k : k * consumer_.columns + n;
        const int8_t sign = splitMix(splitMix(salt_ + iteration) + uint64_t(global)) & 1 ? 1 : -1;
        sink(global, sign);
      }
}

void SignPattern::whole(uint32_t iteration, Sink sink) const {
  for (int64_t i = 0; i < placement_.globalElements(); ++i)
    sink(i, int8_t(splitMix(splitMix(salt_ + iteration) + uint64_t(i)) & 1 ? 1 : -1));
}

} // namespace braid::reference
