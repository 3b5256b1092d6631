//===- backends/cuda/granules.h - a copy between any addresses, 16 bytes at a time ------------===//
//
// A granule is 16 bytes at a multiple of 16, the unit of a thread's loads and stores. If source and
// destination are aligned differently, whole granules are still written, and each is assembled from
// the two source granules that contain its bytes. The edges are the bytes of the destination before
// its first and after its last whole granule, at most 15 each, which are copied byte by byte.
//
//   source       ....abcdefghijkl|mnopqrstuvwxyzAB|CDEFGHIJKL......
//   destination  .........abcdefg|hijklmnopqrstuvw|xyzABCDEFGHIJKL.
//                         edge        granule       edge
//
// A granule of the source may contain bytes outside the source that another thread writes
// concurrently. These are loaded and discarded; the wanted bytes are correct, because a load reads
// each byte independently. Every granule that is read contains a wanted byte, and no byte outside
// the destination is written.
//
// Used by kernels, and by tests on the host.
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

/// Returns the number within the tile of a thread's i-th granule. A warp's granules are
/// consecutive: the i-th of its last thread is followed by the (i+1)-th of its first thread.
BRAID_HOST_DEVICE inline uint32_t granuleOf(uint32_t thread, uint32_t i) {
  const uint32_t lane = thread % kWarp;
  return (thread - lane) * kGranulesEach + i * kWarp + lane;
}

/// Divides a tile's bytes into granules and edges.
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

  /// Returns the offset in the tile of its i-th edge byte.
  BRAID_HOST_DEVICE uint32_t edgeAt(uint32_t i) const { return i < head ? i : i + writes * 16; }

  Granule *dst;
  const Granule *src;
  uint32_t writes; ///< granules at dst
  uint32_t reads;  ///< granules at src: `writes`, or one more
  uint32_t shift;  ///< offset of the first source byte in its granule, below 16
  uint32_t head;   ///< edge bytes before dst
  uint32_t edges;  ///< all edge bytes, at most 30
};

/// Returns 32 bits of two words, starting at bit `bits` of the low one, which is below 32.
BRAID_HOST_DEVICE inline uint32_t funnelShift(uint32_t low, uint32_t high, uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<uint32_t>((uint64_t(high) << 32 | low) >> bits);
#endif
}

/// Returns 16 bytes of two neighbours, starting at byte `shift` of the low one, which is below 16.
/// Every index is a constant, so that all words stay in registers.
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
