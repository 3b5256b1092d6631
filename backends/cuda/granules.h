//===- backends/cuda/granules.h - a copy between any addresses, 16 bytes at a time ------------===//
//
// A granule is 16 bytes at a multiple of 16: what a thread loads or stores at once. Where source
// and destination lie differently in theirs, whole granules are written all the same, and each is
// assembled from the two that hold its bytes in the source. The bytes of the destination before its
// first whole granule and behind its last one are its edges, at most 15 each, copied by the byte.
//
//   source       ....abcdefghijkl|mnopqrstuvwxyzAB|CDEFGHIJKL......
//   destination  .........abcdefg|hijklmnopqrstuvw|xyzABCDEFGHIJKL.
//                         edge        granule       edge
//
// A granule of the source may hold bytes beside it, which somebody else may write meanwhile. They
// are read and thrown away; the wanted ones are right, because a GPU's load takes every byte for
// itself. No granule is read that holds no wanted byte, and no byte is written beside.
//
// For kernels and for the host, which tests it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/tiles.h"

namespace braid::cuda {

struct alignas(16) Granule {
  uint32_t words[4];
};

constexpr uint32_t kWarp = 32;
constexpr uint32_t kTeam = 128; ///< threads for a tile
constexpr uint32_t kGranulesEach = kTileBytes / int64_t(sizeof(Granule)) / kTeam; ///< per thread

/// The number in the tile of a thread's i-th granule. Those of a warp follow one another: behind
/// the i-th of its last thread comes the i+1-th of its first one.
BRAID_HOST_DEVICE inline uint32_t granuleOf(uint32_t thread, uint32_t i) {
  const uint32_t lane = thread % kWarp;
  return (thread - lane) * kGranulesEach + i * kWarp + lane;
}

/// A tile's bytes as granules.
struct GranuleTile {
  BRAID_HOST_DEVICE explicit GranuleTile(const Tile &tile) {
    const auto before = static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(tile.dst) % 16);
    head = before < tile.bytes ? before : tile.bytes;
    writes = (tile.bytes - head) / 16;
    edges = tile.bytes - writes * 16;
    const char *from = tile.src + head;
    shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
    reads = writes == 0 ? 0 : writes + (shift != 0);
    dst = reinterpret_cast<Granule *>(tile.dst + head);
    src = reinterpret_cast<const Granule *>(from - shift);
  }

  /// The offset in the tile of its i-th edge byte.
  BRAID_HOST_DEVICE uint32_t edgeAt(uint32_t i) const { return i < head ? i : i + writes * 16; }

  Granule *dst;
  const Granule *src;
  uint32_t writes; ///< granules at dst
  uint32_t reads;  ///< granules at src: as many, or one more
  uint32_t shift;  ///< where in its granule the first byte to be written lies, below 16
  uint32_t head;   ///< edge bytes before dst
  uint32_t edges;  ///< all edge bytes, at most 30
};

/// 32 bits of two words, from bit `bits` of the low one on, which is below 32.
BRAID_HOST_DEVICE inline uint32_t funnelShift(uint32_t low, uint32_t high, uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<uint32_t>((uint64_t(high) << 32 | low) >> bits);
#endif
}

/// 16 bytes of two neighbours, from byte `shift` of the low one on, which is below 16. Every index
/// is a constant, so that all words stay in registers.
BRAID_HOST_DEVICE inline Granule assemble(const Granule &low, const Granule &high, uint32_t shift) {
  uint32_t words[8] = {low.words[0],  low.words[1],  low.words[2],  low.words[3],
                       high.words[0], high.words[1], high.words[2], high.words[3]};
  for (int i = 0; i < 6; ++i)
    words[i] = shift & 8 ? words[i + 2] : words[i];
  for (int i = 0; i < 5; ++i)
    words[i] = shift & 4 ? words[i + 1] : words[i];
  Granule result;
  for (int i = 0; i < 4; ++i)
    result.words[i] = funnelShift(words[i], words[i + 1], shift % 4 * 8);
  return result;
}

} // namespace braid::cuda
