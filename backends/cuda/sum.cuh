//===- backends/cuda/sum.cuh - how a thread adds partial results ------------------------------===//
//
// A group is what 16 bytes hold of a part, or one element. Sums begin with 0, which is why what is
// absent can be added as 0: no sum is -0 then.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

namespace braid::cuda {

constexpr uint32_t kSumThreads = 128; ///< of a block: few, so that small sums are spread, too
constexpr int kMostParts = 8; ///< of a group that are on their way at once

template <class T> struct Widened { using Type = float; };
template <> struct Widened<double> { using Type = double; };

/// What is loaded or stored at once.
template <size_t kBytes> struct Word;
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = uint2; };
template <> struct Word<16> { using Type = uint4; };

template <class T, int kWide> struct Group {
  using Acc = typename Widened<T>::Type;
  using Bits = typename Word<sizeof(T) * kWide>::Type;

  T elements[kWide];

  static __device__ Group of(const Bits &bits) {
    Group group;
    memcpy(&group, &bits, sizeof(group));
    return group;
  }
  __device__ Bits bits() const {
    Bits bits;
    memcpy(&bits, this, sizeof(bits));
    return bits;
  }
  __device__ void addTo(Acc (&total)[kWide]) const {
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      total[i] += static_cast<Acc>(elements[i]);
  }
};

template <class Bits> __device__ const Bits *partOf(const Sum &sum, int64_t part) {
  return reinterpret_cast<const Bits *>(static_cast<const char *>(sum.parts) + part * sum.stride);
}

/// The groups that a thread adds at a time: from `begin` on, all threads of the block apart.
/// isFresh: somebody else writes the parts while the kernel runs, and has said that they are there.
template <class T, class Partial, int kWide, int kParts, int kGroups, bool isFresh = false>
struct SumBatch {
  using From = Group<Partial, kWide>;
  using To = Group<T, kWide>;

  __device__ int64_t at(int g) const { return begin + int64_t(g) * kSumThreads; }

  /// Adds parts `done`, ..., `done + kParts - 1`, or as many as there are. All loads are on their
  /// way before the first sum.
  __device__ void addParts(int64_t done) {
    typename From::Bits read[kGroups][kParts] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        if (at(g) < groups && done + p < sum.count)
          read[g][p] = load(partOf<typename From::Bits>(sum, done + p) + at(g));
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        From::of(read[g][p]).addTo(totals[g]);
  }

  static __device__ typename From::Bits load(const typename From::Bits *bits) {
    return isFresh ? __ldcg(bits) : __ldg(bits);
  }

  __device__ void store(int g, const typename To::Bits &bias) {
    To::of(bias).addTo(totals[g]);
    To result;
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      result.elements[i] = static_cast<T>(totals[g][i]);
    if (at(g) < groups)
      static_cast<typename To::Bits *>(sum.dst)[at(g)] = result.bits();
  }

  const Sum &sum;
  int64_t groups; ///< of dst
  int64_t begin;
  typename To::Acc totals[kGroups][kWide] = {};
};

} // namespace braid::cuda
