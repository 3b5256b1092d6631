//===- runtime/execute/block_pool.h - blocks within regions of memory -------------------------===//
//
// Few regions serve many programs: peers map a region once, whatever lies in it. A block is cut off
// the smallest free extent that it fits in, and is joined with its free neighbours when it is free
// again. Nothing here depends on addresses: ranks that add, allocate, release and recycle alike
// have equal layouts.
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

/// Divides memory that its user owns, and never touches it. All calls take a time that grows with
/// the logarithm of the number of blocks, at most.
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

  /// `bytes` at least, and more than none. Null: add a region first. Its contents are what the
  /// region held there before.
  void *allocate(size_t bytes);
  /// The same, from where a region begins in which all is free.
  void *allocateIn(uint32_t region, size_t bytes);
  /// Memory to take blocks from: its number.
  uint32_t add(void *base, size_t bytes);
  /// A block that is allocated, or released and not recycled. Nothing: there is none.
  std::optional<Block> find(const void *address) const;
  /// No program uses the block any more, but a peer may not be done with it. False: there is none.
  bool release(const void *address);
  /// Makes released blocks free and returns them, in the order in which they were released.
  std::vector<Memory> recycle();

  /// The regions in which no block is allocated, in order; some may have released ones.
  std::vector<uint32_t> unusedRegions() const;
  Memory region(uint32_t number) const;
  /// Takes a region away in which all is free.
  void remove(uint32_t region);
  template <class Visit> void forEachRegion(Visit visit) const {
    for (const auto &[number, region] : regions_)
      visit(region.memory);
  }

  /// Bytes of blocks that are not free, and of all regions.
  size_t blockBytes() const { return blockBytes_; }
  size_t regionBytes() const { return regionBytes_; }

private:
  struct Extent {
    size_t bytes;
    bool isFree;
  };
  struct Region {
    Memory memory;
    size_t allocated = 0;             ///< blocks
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
