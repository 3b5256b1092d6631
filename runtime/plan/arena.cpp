//===- runtime/plan/arena.cpp - places the buffers of a Plan in arenas ------------------------===//

#include "runtime/plan/arena.h"

namespace braid {
namespace {

/// Rounds up to a positive multiple of the alignment, so that no two live buffers share an offset.
int64_t roundedUp(int64_t bytes) {
  int64_t units = (bytes + ArenaLayout::kAlignment - 1) / ArenaLayout::kAlignment;
  return (units == 0 ? 1 : units) * ArenaLayout::kAlignment;
}

} // namespace

int64_t ArenaLayout::allocate(int64_t bytes, uint32_t stream) {
  constexpr int64_t kLimit = INT64_MAX / 2;
  if (bytes > kLimit || size_ > kLimit - bytes - kAlignment)
    return -1;
  int64_t wanted = roundedUp(bytes);
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->stream != stream || hole->bytes < wanted)
      continue;
    int64_t offset = hole->offset;
    hole->offset += wanted;
    hole->bytes -= wanted;
    if (hole->bytes == 0)
      holes_.erase(hole);
    return offset;
  }
  int64_t offset = size_;
  size_ += wanted;
  return offset;
}

void ArenaLayout::release(int64_t offset, int64_t bytes, uint32_t stream) {
  holes_.push_back({offset, roundedUp(bytes), stream});
}

} // namespace braid
