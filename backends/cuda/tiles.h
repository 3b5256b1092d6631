//===- backends/cuda/tiles.h - round-robin division of copies among blocks --------------------===//
//
// Copies are divided into tiles, numbered across copies: tile 0 of every copy, then tile 1 of every
// copy that has one, and so on, so that all copies progress concurrently. Block b of n processes
// tiles b, b + n, ...; if there are at least as many tiles as blocks, every block has a tile.
//
// Used by kernels and, on the host, by tests.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/host_device.h"

#include <cstdint>

namespace braid::cuda {

struct CopyAndSignalCopy {
  char *dst;
  const char *src;
  int64_t bytes;
};

constexpr int64_t kTileBytes = 16 << 10;

BRAID_HOST_DEVICE inline int64_t tilesOf(const CopyAndSignalCopy &copy) {
  return (copy.bytes + kTileBytes - 1) / kTileBytes;
}

struct Tile {
  uint32_t copy; ///< index of the copy
  char *dst;
  const char *src;
  uint32_t bytes;
};

/// Iterates over the tiles of one block. The iteration must be fast, because a single thread of
/// each block performs it three times while no data moves. Tile numbers therefore have 32 bits
/// (enough for 64 TiB): 32-bit division is ten times as fast as 64-bit division.
class TileWalk {
public:
  BRAID_HOST_DEVICE TileWalk(const CopyAndSignalCopy *copies, uint32_t count, uint32_t block,
                             uint32_t blocks)
      : copies_(copies), count_(count), blocks_(blocks), ahead_(block) {
    enterBand();
  }

  /// Returns false after the last tile.
  BRAID_HOST_DEVICE bool next(Tile &tile) {
    for (uint32_t left; width_ != 0 && ahead_ >= (left = (end_ - part_) * width_); enterBand()) {
      ahead_ -= left;
      part_ = end_;
    }
    if (width_ == 0)
      return false;
    part_ += ahead_ / width_;
    ahead_ %= width_;
    tile = tileAt(ahead_);
    ahead_ += blocks_;
    return true;
  }

private:
  BRAID_HOST_DEVICE uint32_t tilesOf(uint32_t copy) const {
    return static_cast<uint32_t>(cuda::tilesOf(copies_[copy]));
  }

  /// Enters a band: tile numbers part_ to end_ - 1, for which the same width_ copies have tiles.
  BRAID_HOST_DEVICE void enterBand() {
    width_ = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const uint32_t tiles = tilesOf(i);
      if (tiles <= part_)
        continue;
      end_ = width_ == 0 || tiles < end_ ? tiles : end_;
      ++width_;
    }
  }

  /// Returns tile part_ of the `number`-th copy that has this tile.
  BRAID_HOST_DEVICE Tile tileAt(uint32_t number) const {
    uint32_t copy = number;
    if (width_ != count_)
      for (copy = 0;; ++copy)
        if (tilesOf(copy) > part_ && number-- == 0)
          break;
    const CopyAndSignalCopy &whole = copies_[copy];
    const int64_t at = part_ * kTileBytes, left = whole.bytes - at;
    return {copy, whole.dst + at, whole.src + at,
            static_cast<uint32_t>(left < kTileBytes ? left : kTileBytes)};
  }

  const CopyAndSignalCopy *copies_;
  const uint32_t count_, blocks_;
  uint32_t part_ = 0, end_ = 0, width_ = 0;
  uint32_t ahead_; ///< number of tiles from the first tile numbered part_ to this block's next tile
};

} // namespace braid::cuda
