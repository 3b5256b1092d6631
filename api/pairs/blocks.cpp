//===- api/pairs/blocks.cpp - blocks on a device: filled, and compared byte by byte -----------===//

#include "api/pairs/blocks.h"

#include "ir/failure.h"
#include "runtime/split_mix.h"

#include <algorithm>
#include <cstring>

namespace braid {
namespace {

constexpr int64_t kWord = 8;
/// The host holds this much at a time.
constexpr int64_t kWindow = int64_t(16) << 20;

uint64_t wordAt(uint64_t seed, int64_t index) {
  return splitMix(mixBits(seed) + static_cast<uint64_t>(index) * kSplitMixStep);
}

} // namespace

void drawBytes(uint64_t seed, Drawn drawn, int64_t offset, char *data, int64_t bytes) {
  const uint64_t flip = drawn == Drawn::Complement ? ~uint64_t(0) : 0;
  int64_t at = 0;
  for (; at + kWord <= bytes; at += kWord) {
    const uint64_t word = wordAt(seed, (offset + at) / kWord) ^ flip;
    std::memcpy(data + at, &word, kWord);
  }
  const uint64_t last = wordAt(seed, (offset + at) / kWord) ^ flip;
  std::memcpy(data + at, &last, static_cast<size_t>(bytes - at));
}

/// Compares whole words first, for speed.
int64_t firstWrong(uint64_t seed, int64_t offset, const char *data, int64_t bytes) {
  int64_t at = 0;
  for (; at + kWord <= bytes; at += kWord) {
    const uint64_t word = wordAt(seed, (offset + at) / kWord);
    if (std::memcmp(data + at, &word, kWord) != 0)
      break;
  }
  char expected[kWord];
  drawBytes(seed, Drawn::Bytes, offset + at, expected, std::min(kWord, bytes - at));
  for (int64_t first = at; at < bytes && data[at] == expected[at - first];)
    ++at;
  return at;
}

Status fillBlocks(Device &device, char *base, int64_t bytes, uint64_t seed, Drawn drawn) {
  std::vector<char> window(static_cast<size_t>(std::min(kWindow, bytes)));
  for (int64_t at = 0; at < bytes; at += kWindow) {
    const int64_t length = std::min(kWindow, bytes - at);
    drawBytes(seed, drawn, at, window.data(), length);
    device.copy(0, {}, base + at, window.data(), length);
    BRAID_TRY(device.synchronize());
  }
  return Status::ok();
}

Result<std::optional<WrongData>> compareBlocks(Device &device, const char *base, int64_t bytes,
                                               uint64_t seed) {
  std::vector<char> window(static_cast<size_t>(std::min(kWindow, bytes)));
  for (int64_t at = 0; at < bytes; at += kWindow) {
    const int64_t length = std::min(kWindow, bytes - at);
    device.copy(0, {}, window.data(), base + at, length);
    BRAID_TRY(device.synchronize());
    const int64_t wrong = firstWrong(seed, at, window.data(), length);
    if (wrong == length)
      continue;
    char expected[kWord];
    drawBytes(seed, Drawn::Bytes, (at + wrong) / kWord * kWord, expected, kWord);
    return std::optional(WrongData{0, at + wrong,
                                   static_cast<uint8_t>(expected[(at + wrong) % kWord]),
                                   static_cast<uint8_t>(window[static_cast<size_t>(wrong)])});
  }
  return std::optional<WrongData>();
}

} // namespace braid
