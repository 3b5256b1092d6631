//===- runtime/plan/arena.h - where the buffers of a Plan lie ---------------------------------===//
#pragma once

#include <cstdint>
#include <vector>

namespace braid {

/// Hands out offsets in one arena. Freed memory is given only to buffers allocated on the stream
/// that freed it: everything the old buffer's owner ordered before the free on that stream is
/// then ordered before the new buffer's first use there.
class ArenaLayout {
public:
  static constexpr int64_t kAlignment = 256; ///< bytes

  /// The offset of `bytes` bytes for a buffer allocated on `stream`, or -1 if the arena would
  /// exceed 64 bits.
  int64_t allocate(int64_t bytes, uint32_t stream);
  void release(int64_t offset, int64_t bytes, uint32_t stream);
  /// Bytes the arena needs.
  int64_t size() const { return size_; }

private:
  struct Hole {
    int64_t offset, bytes;
    uint32_t stream;
  };
  std::vector<Hole> holes_;
  int64_t size_ = 0;
};

} // namespace braid
