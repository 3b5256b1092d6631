//===- runtime/plan/arena.h - offsets of a Plan's buffers -------------------------------------===//
#pragma once

#include <cstdint>
#include <vector>

namespace braid {

/// Assigns offsets within an arena. Reuses freed memory only for buffers allocated on the stream
/// that freed it, so that stream order protects the memory from accesses issued before the free.
class ArenaLayout {
public:
  static constexpr int64_t kAlignment = 256; ///< bytes

  /// Returns the offset of a buffer allocated on `stream`, or -1 if the arena would exceed 64 bits.
  int64_t allocate(int64_t bytes, uint32_t stream);
  void release(int64_t offset, int64_t bytes, uint32_t stream);
  /// Returns the size of the arena in bytes.
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
