//===- runtime/execute/block_pool.cpp - blocks within regions of memory -----------------------===//

#include "runtime/execute/block_pool.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace braid {

void *BlockPool::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  const auto found = free_.lower_bound({size, 0, 0});
  return found == free_.end() ? nullptr : take(std::get<1>(*found), std::get<2>(*found), size);
}

void *BlockPool::allocateIn(uint32_t region, size_t bytes) {
  return take(region, 0, rounded(bytes));
}

/// Cuts a block from the start of a free extent.
void *BlockPool::take(uint32_t number, size_t offset, size_t bytes) {
  Region &region = regions_.at(number);
  const size_t had = region.extents.at(offset).bytes;
  assert(region.extents.at(offset).isFree && had >= bytes);
  free_.erase({had, number, offset});
  region.extents[offset] = {bytes, false};
  if (had > bytes) {
    region.extents[offset + bytes] = {had - bytes, true};
    free_.insert({had - bytes, number, offset + bytes});
  }
  ++region.allocated;
  blockBytes_ += bytes;
  void *address = static_cast<char *>(region.memory.address) + offset;
  blocks_[address] = {number, offset, bytes};
  return address;
}

uint32_t BlockPool::add(void *base, size_t bytes) {
  const uint32_t number = nextRegion_++;
  regions_[number].memory = {base, bytes};
  regionBytes_ += bytes;
  setFree(number, 0, bytes);
  return number;
}

/// Marks an extent as free and merges it with adjacent free extents.
void BlockPool::setFree(uint32_t number, size_t offset, size_t bytes) {
  std::map<size_t, Extent> &extents = regions_.at(number).extents;
  auto join = [&](auto neighbour) {
    if (neighbour == extents.end() || !neighbour->second.isFree)
      return;
    free_.erase({neighbour->second.bytes, number, neighbour->first});
    offset = std::min(offset, neighbour->first);
    bytes += neighbour->second.bytes;
    extents.erase(neighbour);
  };
  extents.erase(offset);
  const auto next = extents.lower_bound(offset);
  const auto before = next == extents.begin() ? extents.end() : std::prev(next);
  join(next);
  join(before);
  extents[offset] = {bytes, true};
  free_.insert({bytes, number, offset});
}

std::optional<BlockPool::Block> BlockPool::find(const void *address) const {
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? std::nullopt : std::optional(found->second);
}

bool BlockPool::release(const void *address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || std::exchange(found->second.isReleased, true))
    return false;
  --regions_.at(found->second.region).allocated;
  released_.push_back(address);
  return true;
}

std::vector<BlockPool::Memory> BlockPool::recycle() {
  std::vector<Memory> freed;
  for (const void *address : released_) {
    const auto found = blocks_.find(address);
    const Block block = found->second;
    blocks_.erase(found);
    blockBytes_ -= block.bytes;
    setFree(block.region, block.offset, block.bytes);
    freed.push_back({const_cast<void *>(address), block.bytes});
  }
  released_.clear();
  return freed;
}

std::vector<uint32_t> BlockPool::unusedRegions() const {
  std::vector<uint32_t> numbers;
  for (const auto &[number, region] : regions_)
    if (region.allocated == 0)
      numbers.push_back(number);
  return numbers;
}

BlockPool::Memory BlockPool::region(uint32_t number) const { return regions_.at(number).memory; }

void BlockPool::remove(uint32_t number) {
  const auto found = regions_.find(number);
  assert(found != regions_.end() && found->second.extents.size() == 1 &&
         found->second.extents.begin()->second.isFree && "blocks lie there");
  const size_t bytes = found->second.memory.bytes;
  free_.erase({bytes, number, 0});
  regionBytes_ -= bytes;
  regions_.erase(found);
}

} // namespace braid
