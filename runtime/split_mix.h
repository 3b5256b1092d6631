//===- runtime/split_mix.h - portable pseudo-random numbers -----------------------------------===//
//
// Implements SplitMix64, because the standard library's distributions differ between platforms.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Mixes bits so that every bit of the result depends on every bit of `bits`. Returns 0 for 0.
constexpr uint64_t mixBits(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// The increment of the generator's state.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

/// Returns the random number for `state`. The next state is `state` + kSplitMixStep.
constexpr uint64_t splitMix(uint64_t state) { return mixBits(state + kSplitMixStep); }

} // namespace braid
