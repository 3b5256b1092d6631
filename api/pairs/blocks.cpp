//===- api/pairs/blocks.cpp - blocks on a device: filled, poisoned and compared ---------------===//

#include "api/pairs/blocks.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kWindow = int64_t(16) << 20;
constexpr int64_t kLeastStride = 256; ///< what copies by a kernel are fastest at

PatternKey slotOf(PatternKey key, int64_t slot) {
  key.round += slot;
  return key;
}

} // namespace

BlockShape BlockShape::of(int64_t bytes, int64_t most) {
  const int64_t stride = (bytes + kLeastStride - 1) / kLeastStride * kLeastStride;
  return {bytes, std::clamp<int64_t>(kWindow / stride, 1, std::max<int64_t>(most, 1)), stride};
}

/// Flags lie where host and device both reach them, and so does this.
Result<Blocks> Blocks::create(Device &device) {
  void *window = BRAID_TRY(device.allocate(ArenaKind::Flags, kWindow));
  return Blocks(device, static_cast<char *>(window));
}

Status Blocks::move(void *dst, const void *src, int64_t bytes) {
  device_->copy(0, {}, dst, src, bytes);
  return device_->synchronize();
}

/// Several blocks fit the window together; of a single one come parts as large as that.
Status Blocks::write(void *base, const BlockShape &shape, const PatternKey &key, Drawn drawn) {
  if (shape.slots > 1) {
    for (int64_t slot = 0; slot < shape.slots; ++slot)
      drawPattern(slotOf(key, slot), drawn, 0, window_ + slot * shape.stride, shape.bytes);
    return move(base, window_, shape.allBytes());
  }
  for (int64_t at = 0; at < shape.bytes; at += kWindow) {
    const int64_t length = std::min(kWindow, shape.bytes - at);
    drawPattern(key, drawn, at, window_, length);
    BRAID_TRY(move(static_cast<char *>(base) + at, window_, length));
  }
  return Status::ok();
}

Result<std::optional<WrongData>> Blocks::compare(const void *base, const BlockShape &shape,
                                                 const PatternKey &key) {
  std::optional<WrongData> wrong;
  if (shape.slots > 1) {
    BRAID_TRY(move(window_, base, shape.allBytes()));
    for (int64_t slot = 0; slot < shape.slots && !wrong; ++slot)
      wrong = findWrong(slotOf(key, slot), 0, window_ + slot * shape.stride, shape.bytes);
    return wrong;
  }
  for (int64_t at = 0; at < shape.bytes && !wrong; at += kWindow) {
    const int64_t length = std::min(kWindow, shape.bytes - at);
    BRAID_TRY(move(window_, static_cast<const char *>(base) + at, length));
    wrong = findWrong(key, at, window_, length);
  }
  return wrong;
}

} // namespace braid
