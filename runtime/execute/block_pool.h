//===- runtime/execute/block_pool.h - blocks within regions of memory -------------------------===//
//
// Many programs share a few regions, so that peers need to map each region only once. A block is
// cut from the smallest free extent that is large enough. When a block is freed, it is merged with
// adjacent free extents. Layouts do not depend on addresses, so ranks that make the same sequence
// of calls have equal layouts.
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

/// Manages memory owned by the caller, without accessing it. The time per call is at most
/// logarithmic in the number of blocks.
class BlockPool {
public:
  /// The location of a block. Sizes are in bytes.
  struct Block {
    uint32_t region = 0; ///< 0, 1, ... in the order of add(); never reused
    size_t offset = 0, bytes = 0;
    bool isReleased = false;
  };
  struct Memory {
    void *address;
    size_t bytes;
  };

  /// Sizes of blocks, and their offsets within a region, are multiples of `alignment` bytes.
  explicit BlockPool(size_t alignment) : alignment_(alignment) {}

  /// Returns an uninitialized block of at least `bytes` bytes (not 0), or null if no free extent is
  /// large enough. After a null result, add a region and retry.
  void *allocate(size_t bytes);
  /// Like allocate(), but allocates at the start of a region that is entirely free.
  void *allocateIn(uint32_t region, size_t bytes);
  /// Adds a region and returns its number.
  uint32_t add(void *base, size_t bytes);
  /// Returns the block at `address` if it is allocated, or released but not yet recycled.
  std::optional<Block> find(const void *address) const;
  /// Releases the block at `address`. No program on this rank may use the block any more, but a
  /// peer may still access it. Returns false if no allocated block starts at `address`.
  bool release(const void *address);
  /// Frees all released blocks and returns them in order of release.
  std::vector<Memory> recycle();

  /// Returns, in ascending order, the regions without allocated blocks; released blocks may remain.
  std::vector<uint32_t> unusedRegions() const;
  Memory region(uint32_t number) const;
  /// Removes a region that is entirely free.
  void remove(uint32_t region);
  template <class Visit> void forEachRegion(Visit visit) const {
    for (const auto &[number, region] : regions_)
      visit(region.memory);
  }

  /// Return the total size in bytes of all blocks that are not free, and of all regions.
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
    std::map<size_t, Extent> extents; ///< by offset; free extents are never adjacent
  };
  size_t rounded(size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  void *take(uint32_t number, size_t offset, size_t bytes);
  void setFree(uint32_t number, size_t offset, size_t bytes);

  const size_t alignment_;
  uint32_t nextRegion_ = 0;
  std::map<uint32_t, Region> regions_;
  std::set<std::tuple<size_t, uint32_t, size_t>> free_; ///< (bytes, region, offset)
  std::unordered_map<const void *, Block> blocks_;
  std::vector<const void *> released_;
  size_t blockBytes_ = 0, regionBytes_ = 0;
};

} // namespace braid
