//===- api/pairs/blocks.h - blocks on a device: filled, poisoned and compared -----------------===//
#pragma once

#include "api/pairs/pattern.h"
#include "runtime/execute/device.h"

namespace braid {

/// Blocks of one size, one behind the other.
struct BlockShape {
  int64_t bytes = 0;  ///< of a block; a multiple of 4
  int64_t slots = 1;  ///< blocks
  int64_t stride = 0; ///< bytes from one to the next; at least `bytes`

  /// As many as fit some MiB, at most `most`, and no two in one cache line.
  static BlockShape of(int64_t bytes, int64_t most);
  int64_t allBytes() const { return slots * stride; }
};

/// A device's memory as the host sees it: through a window of host memory that the device reaches.
/// All calls block until the device is done. Block number `slot` has `key.round + slot` as its
/// round.
class Blocks {
public:
  /// The window is the device's until that is destroyed.
  static Result<Blocks> create(Device &device);

  Status fill(void *base, const BlockShape &shape, const PatternKey &key) {
    return write(base, shape, key, Drawn::Bytes);
  }
  Status poison(void *base, const BlockShape &shape, const PatternKey &key) {
    return write(base, shape, key, Drawn::Complement);
  }
  /// Where the first block that is not as it should be is wrong.
  Result<std::optional<WrongData>> compare(const void *base, const BlockShape &shape,
                                           const PatternKey &key);

private:
  Blocks(Device &device, char *window) : device_(&device), window_(window) {}
  Status write(void *base, const BlockShape &shape, const PatternKey &key, Drawn drawn);
  Status move(void *dst, const void *src, int64_t bytes);

  Device *device_;
  char *window_;
};

} // namespace braid
