//===- backends/cuda/add_groups.h - sums of partial results, for kernels ----------------------===//
//
// The partial results that a sum adds are called its parts. For several groups of elements, each
// thread issues the loads of all parts before it adds any of them. A group spans 16 bytes of a
// part, or a single element if any address is not a multiple of the group size. A single thread
// computes each element of the result, so the bits do not depend on how the work is divided. Sums
// start from +0 and are never -0, so adding 0 in place of a missing part has no effect.
//
// Compiled by nvcc only.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/element_types.h"

#include <cstring>

namespace braid::cuda {

constexpr int kMostParts = 8; ///< maximum number of parts that a thread loads at once

// -- Element types. --

/// The element types of a sum's bias (T), parts (Partial) and result (Result).
template <class T_, class Partial_, class Result_> struct SumTypes {
  using T = T_;
  using Partial = Partial_;
  using Result = Result_;
};

/// Returns the result of calling `fn` with the SumTypes for `sum`.
template <class Fn> auto withSumTypes(const Sum &sum, Fn fn) {
  return withElement(sum.element, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) != 2) {
      return fn(SumTypes<T, T, T>());
    } else {
      if (sum.result == sum.element)
        return sum.partial == sum.element ? fn(SumTypes<T, T, T>()) : fn(SumTypes<T, float, T>());
      return sum.partial == sum.element ? fn(SumTypes<T, T, float>())
                                        : fn(SumTypes<T, float, float>());
    }
  });
}

/// Calls `fn` with a Sum for every valid combination of element types.
template <class Fn> void forAllSumTypes(Fn fn) {
  for (Element element : kElements)
    for (Element partial : {element, Element::F32})
      for (Element result : {element, Element::F32}) {
        Sum sum = {};
        sum.element = element;
        sum.partial = partial;
        sum.result = result;
        fn(sum);
      }
}

// -- Groups. --

/// The type of one load or store.
template <size_t kBytes> struct Word;
template <> struct Word<2> { using Type = unsigned short; };
template <> struct Word<4> { using Type = unsigned int; };
template <> struct Word<8> { using Type = uint2; };
template <> struct Word<16> { using Type = uint4; };
template <> struct Word<32> {
  struct alignas(16) Type {
    uint4 half[2];
  };
};

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

// -- Division of the work. --

/// The groups of dst that one thread computes: a first group and every `apart`-th group after it.
struct SumWalk {
  int64_t groups;     ///< number of groups in dst
  int64_t biasGroups; ///< number of groups in the bias; 1 if there is no bias
  int64_t apart;
};

/// Returns the walk for groups of `wide` elements.
inline SumWalk sumWalkFor(const Sum &sum, int64_t wide, int64_t apart) {
  const int64_t biasGroups = sum.bias ? sum.biasElements / wide : 1;
  return {sum.elements / wide, biasGroups, apart};
}

template <class Bits> __device__ const Bits *partOf(const Sum &sum, int64_t part) {
  return reinterpret_cast<const Bits *>(static_cast<const char *>(sum.parts) + part * sum.stride);
}

/// The Place (see GroupBatch) in kernels that only compute a sum, with kThreads threads per block.
/// The operands are not written concurrently, and the kernel does not store the parts elsewhere.
template <int kThreads> struct AloneInKernel {
  static __device__ int64_t apart(const SumWalk &) { return kThreads; }
  template <class Bits> static __device__ Bits read(const Sum &sum, int64_t part, int64_t at) {
    return __ldg(partOf<Bits>(sum, part) + at);
  }
  template <class Bits> static __device__ void keep(const Sum &, int64_t, int64_t, const Bits &) {}
  __device__ bool hasRound(const SumWalk &walk, int64_t begin) const { return begin < walk.groups; }
  __device__ void loaded(bool, bool) {}
  template <class Bits> __device__ void stored(int64_t, const Bits &) {}
};

/// The groups that a thread adds in one round. `Place` is a policy class, such as AloneInKernel,
/// that adapts sums to a kernel. Its keep() receives every loaded value after all loads have been
/// issued. hasRound() returns true if this thread, or a thread that it synchronizes with, has
/// groups at or after `begin`. loaded() is called once per round, between the last read and the
/// first store, with a flag that is true in the last round, and a value that depends on all reads.
/// stored() receives each group of the result.
template <class Place, class Types, int kWide, int kParts, int kGroups> struct GroupBatch {
  using From = Group<typename Types::Partial, kWide>;
  using Bias = Group<typename Types::T, kWide>;
  using To = Group<typename Types::Result, kWide>;

  __device__ int64_t at(int g) const { return begin + int64_t(g) * Place::apart(walk); }

  /// Adds parts `done` through `done + kParts - 1`, skipping parts that do not exist. Issues all
  /// loads before the first addition.
  __device__ void addParts(int64_t done) {
    typename From::Bits read[kGroups][kParts] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        if (at(g) < walk.groups && done + p < sum.count)
          read[g][p] = Place::template read<typename From::Bits>(sum, done + p, at(g));
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        From::of(read[g][p]).addTo(totals[g]);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        if (at(g) < walk.groups && done + p < sum.count)
          Place::keep(sum, done + p, at(g), read[g][p]);
  }

  __device__ void store(int g, const typename Bias::Bits &bias, Place &place) {
    Bias::of(bias).addTo(totals[g]);
    To result;
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      result.elements[i] = static_cast<typename Types::Result>(totals[g][i]);
    if (at(g) >= walk.groups)
      return;
    static_cast<typename To::Bits *>(sum.dst)[at(g)] = result.bits();
    place.stored(at(g), result.bits());
  }

  /// Returns a value that depends on all reads. Code that uses it cannot be moved ahead of the
  /// reads.
  __device__ bool dependsOnAll() const {
    bool result = false;
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      result |= totals[g][0] == typename To::Acc(1);
    return result;
  }

  const Sum &sum;
  const SumWalk &walk;
  int64_t begin;
  typename To::Acc totals[kGroups][kWide] = {};
};

/// Adds a thread's groups in rounds: kGroups groups from `first`, then kGroups groups from `first +
/// step`, and so on. `sum.count` must not exceed kParts unless kParts is kMostParts.
template <class Place, class Types, int kWide, int kParts, int kGroups>
__device__ void addGroups(const Sum &sum, const SumWalk &walk, int64_t first, int64_t step,
                          Place place = {}) {
  using Bias = typename Group<typename Types::T, kWide>::Bits;
  for (int64_t begin = first; place.hasRound(walk, begin); begin += step) {
    GroupBatch<Place, Types, kWide, kParts, kGroups> batch{sum, walk, begin};
    Bias bias[kGroups] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      if (sum.bias)
        bias[g] = static_cast<const Bias *>(sum.bias)[batch.at(g) % walk.biasGroups];
    int64_t done = 0;
    do
      batch.addParts(done);
    while (kParts == kMostParts && (done += kParts) < sum.count);
    place.loaded(!place.hasRound(walk, begin + step), batch.dependsOnAll());
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      batch.store(g, bias[g], place);
  }
}

/// Adds the elements after the last full group of kWide elements, one per thread. `thread` is the
/// thread's index within the grid.
template <class Place, class Types, int kWide>
__device__ void addRest(const Sum &sum, const SumWalk &walk, int64_t thread) {
  using From = Group<typename Types::Partial, 1>;
  const int64_t i = walk.groups * kWide + thread;
  if (kWide == 1 || i >= sum.elements)
    return;
  typename From::Acc total[1] = {};
#pragma unroll 1
  for (int64_t part = 0; part < sum.count; ++part)
    From::of(Place::template read<typename From::Bits>(sum, part, i)).addTo(total);
  if (sum.bias)
    total[0] += static_cast<typename From::Acc>(
        static_cast<const typename Types::T *>(sum.bias)[i % sum.biasElements]);
  static_cast<typename Types::Result *>(sum.dst)[i] = static_cast<typename Types::Result>(total[0]);
}

} // namespace braid::cuda
