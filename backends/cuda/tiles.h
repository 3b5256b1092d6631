//===- backends/cuda/tiles.h - how the bytes of several copies are dealt out to blocks --------===//
//
// Copies are cut into tiles, and tiles are numbered: tile 0 of every copy, then tile 1 of those
// that have one, and so on, so that all copies go on at the same time. Block b of n gets the tiles
// b, b + n, ...: with no more blocks than tiles, every block has one, and no tile is left.
//
// For kernels and for the host, which tests it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define BRAID_HOST_DEVICE __host__ __device__
#else
#define BRAID_HOST_DEVICE
#endif

namespace braid::cuda {

struct ExchangeCopy {
  char *dst;
  const char *src;
  int64_t bytes;
};

constexpr int64_t kTileBytes = 16 << 10;

BRAID_HOST_DEVICE inline int64_t tilesOf(const ExchangeCopy &copy) {
  return (copy.bytes + kTileBytes - 1) / kTileBytes;
}

struct Tile {
  uint32_t copy; ///< its number
  char *dst;
  const char *src;
  uint32_t bytes;
};

/// The tiles of one block, one after another.
class TileWalk {
public:
  BRAID_HOST_DEVICE TileWalk(const ExchangeCopy *copies, uint32_t count, uint32_t block,
                             uint32_t blocks)
      : copies_(copies), count_(count), blocks_(blocks), ahead_(block) {}

  /// False behind the last one.
  BRAID_HOST_DEVICE bool next(Tile &tile) {
    while (true) {
      // A band: the parts from part_ on that the same copies have.
      int64_t width = 0, end = 0;
      for (uint32_t i = 0; i < count_; ++i) {
        const int64_t tiles = tilesOf(copies_[i]);
        if (tiles <= part_)
          continue;
        end = width == 0 || tiles < end ? tiles : end;
        ++width;
      }
      if (width == 0)
        return false;
      const int64_t tilesLeft = (end - part_) * width;
      if (ahead_ >= tilesLeft) {
        ahead_ -= tilesLeft;
        part_ = end;
        continue;
      }
      part_ += ahead_ / width;
      ahead_ %= width;
      tile = tileAt(ahead_);
      ahead_ += blocks_;
      return true;
    }
  }

private:
  /// Tile part_ of the `number`-th copy that has one.
  BRAID_HOST_DEVICE Tile tileAt(int64_t number) const {
    uint32_t copy = 0;
    for (;; ++copy)
      if (tilesOf(copies_[copy]) > part_ && number-- == 0)
        break;
    const ExchangeCopy &whole = copies_[copy];
    const int64_t at = part_ * kTileBytes, left = whole.bytes - at;
    return {copy, whole.dst + at, whole.src + at,
            static_cast<uint32_t>(left < kTileBytes ? left : kTileBytes)};
  }

  const ExchangeCopy *copies_;
  const uint32_t count_, blocks_;
  int64_t part_ = 0;
  int64_t ahead_; ///< tiles from the first one of part_ to the next one of this block
};

} // namespace braid::cuda
