//===- runtime/split_mix.h - numbers that look random, the same on every machine --------------===//
//
// SplitMix64. The standard library's distributions differ from one platform to another.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Every bit of the result depends on every bit of `bits`; 0 gives 0.
constexpr uint64_t mixBits(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// The increment of a generator's state.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

/// The first number of a generator whose state is `state`; the next one's is kSplitMixStep more.
constexpr uint64_t splitMix(uint64_t state) { return mixBits(state + kSplitMixStep); }

} // namespace braid
