//===- tests/support/scatter_by_hand.h - data of the hand-written reduce-scatter --------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace braid::test::scatter {

inline constexpr int64_t kRows = 16, kK = 8, kColumns = 32;

/// The tensors of one rank in a run.
struct Tensors {
  std::vector<float> a, b, c;
};

/// Returns small integers, whose sums are exact in any order, and an output filled with NaNs.
inline Tensors drawn(int64_t run, int64_t rank, int64_t ranks) {
  auto value = [&](int64_t i) {
    return static_cast<float>((i * 7 + rank * 13 + run * 29) % 11 - 5);
  };
  Tensors tensors;
  for (int64_t i = 0; i < ranks * kRows * kK; ++i)
    tensors.a.push_back(value(i));
  for (int64_t i = 0; i < kK * kColumns; ++i)
    tensors.b.push_back(value(3 * i + 1));
  tensors.c.assign(kRows * kColumns, std::nanf(""));
  return tensors;
}

/// Returns element `i` of the result of rank `owner`: the sum of all ranks' partial results.
inline float expected(const std::vector<Tensors> &all, int64_t owner, int64_t i) {
  float sum = 0;
  for (const Tensors &each : all)
    for (int64_t k = 0; k < kK; ++k)
      sum += each.a[static_cast<size_t>((owner * kRows + i / kColumns) * kK + k)] *
             each.b[static_cast<size_t>(k * kColumns + i % kColumns)];
  return sum;
}

/// Adapts the example, which is written for 4 ranks, to another number of ranks.
inline std::string textFor(int64_t ranks, std::string text) {
  const std::string count = std::to_string(ranks);
  for (std::string before : {"[0 .. ", "f32[", "1 .. ", "mod "})
    for (size_t at = 0; (at = text.find(before + "4", at)) != std::string::npos; ++at)
      text.replace(at + before.size(), 1, count);
  return text;
}

} // namespace braid::test::scatter
