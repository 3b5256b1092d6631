//===- api/pairs/pattern.cpp - what a transfer's bytes are, and where they are not ------------===//

#include "api/pairs/pattern.h"

#include "runtime/split_mix.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace braid {
namespace {

constexpr int64_t kWord = 8;

uint64_t seedOf(const PatternKey &key) {
  uint64_t seed = 0;
  for (int64_t part : {key.source, key.destination, key.bytes, key.round})
    seed = splitMix(seed ^ static_cast<uint64_t>(part));
  return seed;
}

uint64_t wordAt(uint64_t seed, int64_t index) {
  return splitMix(seed + static_cast<uint64_t>(index) * kSplitMixStep);
}

/// Looks at one word byte by byte.
std::optional<WrongData> wrongIn(const PatternKey &key, uint64_t expected, int64_t offset,
                                 const char *data, int64_t bytes) {
  uint8_t want[kWord];
  std::memcpy(want, &expected, kWord);
  for (int64_t i = 0; i < bytes; ++i)
    if (static_cast<uint8_t>(data[i]) != want[i])
      return WrongData{key.bytes, key.round, offset + i, want[i], static_cast<uint8_t>(data[i])};
  return std::nullopt;
}

} // namespace

void drawPattern(const PatternKey &key, Drawn drawn, int64_t offset, char *data, int64_t bytes) {
  assert(offset % kWord == 0 && "patterns are drawn in words");
  const uint64_t seed = seedOf(key), flip = drawn == Drawn::Complement ? ~uint64_t(0) : 0;
  const int64_t first = offset / kWord, words = bytes / kWord, rest = bytes % kWord;
  for (int64_t i = 0; i < words; ++i) {
    const uint64_t word = wordAt(seed, first + i) ^ flip;
    std::memcpy(data + i * kWord, &word, kWord);
  }
  const uint64_t last = wordAt(seed, first + words) ^ flip;
  std::memcpy(data + words * kWord, &last, static_cast<size_t>(rest));
}

/// A gigabyte is compared in a fraction of a second, so what is right is passed over in blocks.
std::optional<WrongData> findWrong(const PatternKey &key, int64_t offset, const char *data,
                                   int64_t bytes) {
  assert(offset % kWord == 0 && "patterns are drawn in words");
  constexpr int64_t kBlock = 512; // words
  const uint64_t seed = seedOf(key);
  const int64_t first = offset / kWord, words = bytes / kWord;
  for (int64_t block = 0; block < words; block += kBlock) {
    const int64_t end = std::min(block + kBlock, words);
    uint64_t difference = 0;
    for (int64_t i = block; i < end; ++i) {
      uint64_t got;
      std::memcpy(&got, data + i * kWord, kWord);
      difference |= got ^ wordAt(seed, first + i);
    }
    for (int64_t i = block; i < end && difference != 0; ++i)
      if (auto wrong =
              wrongIn(key, wordAt(seed, first + i), (first + i) * kWord, data + i * kWord, kWord))
        return wrong;
  }
  return wrongIn(key, wordAt(seed, first + words), (first + words) * kWord, data + words * kWord,
                 bytes % kWord);
}

} // namespace braid
