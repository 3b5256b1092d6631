//===- runtime/execute/block_pool.h - blocks within regions of memory -------------------------===//
//
// A few regions serve many programs, so that peers map each region only once. A block is cut from
// the smallest free extent that fits, and is merged with its free neighbours when it becomes free.
// Nothing depends on addresses: ranks that add, allocate, release and recycle in the same way have
// equal layouts.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace braid {

/// Manages memory that its user owns, without accessing it. Calls take at most logarithmic time in
/// the number of blocks.
class BlockPool {
public:
  /// The place of a block. Sizes are in bytes.
  struct Block {
    uint32_t region = 0; ///< 0, 1, ... in the order of add(); never used twice
    size_t offset = 0, bytes = 0;
    bool isReleased = false;
  };
  struct Memory {
    void *address;
    size_t bytes;
  };

  /// Blocks are multiples of `alignment` bytes, and begin at multiples of it within their region.
  explicit BlockPool(size_t alignment) : alignment_(alignment) {}

  /// Returns a block of at least `bytes` bytes, more than 0, with the contents that the memory had
  /// before. Returns null if no extent fits: add a region first.
  void *allocate(size_t bytes);
  /// As allocate(), from the start of a region that is entirely free.
  void *allocateIn(uint32_t region, size_t bytes);
  /// Adds a region and returns its number.
  uint32_t add(void *base, size_t bytes);
  /// Returns a block that is allocated, or released and not recycled. Empty if there is none.
  std::optional<Block> find(const void *address) const;
  /// Releases a block, which no program uses any more but a peer may still access. Returns false if
  /// there is none.
  bool release(const void *address);
  /// Makes released blocks free and returns them, in the order in which they were released.
  std::vector<Memory> recycle();

  /// Returns the regions without allocated blocks, in order. They may contain released blocks.
  std::vector<uint32_t> unusedRegions() const;
  Memory region(uint32_t number) const;
  /// Removes a region that is entirely free.
  void remove(uint32_t region);
  template <class Visit> void forEachRegion(Visit visit) const {
    for (const auto &[number, region] : regions_)
      visit(region.memory);
  }

  /// Return the bytes of blocks that are not free, and of all regions.
  size_t blockBytes() const { return blockBytes_; }
  size_t regionBytes() const { return regionBytes_; }

private:
  struct Extent {
    size_t bytes;
    bool isFree;
  };
  struct Region {
    Memory memory;
    size_t allocated = 0;             ///< number of allocated blocks
    std::map<size_t, Extent> extents; ///< by offset; no two free ones are neighbours
  };
  size_t rounded(size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  void *take(uint32_t number, size_t offset, size_t bytes);
  void setFree(uint32_t number, size_t offset, size_t bytes);

  const size_t alignment_;
  uint32_t nextRegion_ = 0;
  std::map<uint32_t, Region> regions_;
  std::set<std::tuple<size_t, uint32_t, size_t>> free_; ///< extents: bytes, region, offset
  std::unordered_map<const void *, Block> blocks_;
  std::vector<const void *> released_;
  size_t blockBytes_ = 0, regionBytes_ = 0;
};

} // namespace braid
