//===- runtime/reference/reference_pattern.cpp - the values of one input ----------------------===//
#include "runtime/reference/reference_pattern.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/split_mix.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace braid::reference {

namespace {

/// Signs are the bits of random words, one for each of so many neighbours.
constexpr int64_t kWord = 64;

/// What a mark grows by, modulo the number of different marks, from one line, block or segment to
/// the next; from one iteration to the next it grows by 1. Where there are 31 marks or more, those
/// of blocks up to 4 apart differ even if one of them is up to 4 iterations old.
constexpr uint64_t kLineStep = 29, kBlockStep = 25, kSegmentStep = 13;

/// How far `turn` moves the marks of a segment: not by 0 nor by half of the segment, so that a
/// square matrix with one mark in every line is not its own transpose.
uint64_t shiftOf(uint64_t turn, uint64_t width) {
  if (width == 1)
    return 0;
  const uint64_t shift = 1 + turn % (width - 1);
  return width > 2 && 2 * shift == width ? shift + 1 : shift;
}

} // namespace

/// A rank's part of an input in memory.
struct Pattern::Part {
  int64_t rank;
  int64_t firstK; ///< of every line
  int64_t toNextLine, toNextK;
};

/// Writes values as elements of a type.
class Pattern::Encoder {
public:
  Encoder(DType dtype, int exponent, int64_t most, void *data) : dtype_(dtype), data_(data) {
    for (int64_t value = -most; value <= most; ++value)
      bits_[static_cast<size_t>(value + kMost)] =
          encodeExactly(dtype, std::ldexp(static_cast<double>(value), exponent)).value_or(0);
  }
  void store(int64_t at, int64_t value) const {
    reference::store(dtype_, bits_[static_cast<size_t>(value + kMost)], data_, at);
  }

private:
  static constexpr int64_t kMost = 128;
  DType dtype_;
  void *data_;
  std::array<uint64_t, 2 * kMost + 1> bits_;
};

double Pattern::most() const {
  const bool endsWith4 = isWeights && high > 1 && lines.depth % 2 != 0 && lines.depth > 1;
  return static_cast<double>(endsWith4 ? 4 : high);
}

double Pattern::mostOfLine() const {
  return most() * static_cast<double>(isWeights ? lines.depth : entries);
}

int64_t Pattern::weightMagnitude(uint32_t iteration, int64_t k) const {
  if (k + 1 == lines.depth && k % 2 == 0)
    return static_cast<int64_t>(most());
  return high == 1 ? 1 : 1 + (k + int64_t(iteration)) % 2;
}

/// Bit 0 is the sign of that line, the next bit is that of the next line, and so on to the end of
/// the word.
uint64_t Pattern::weightSigns(uint32_t iteration, int64_t k, int64_t line) const {
  const uint64_t ofElement = splitMix(splitMix(salt + iteration) + static_cast<uint64_t>(k));
  return splitMix(ofElement + static_cast<uint64_t>(line / kWord)) >> (line % kWord);
}

void Pattern::line(uint32_t iteration, int64_t line, Sink sink) const {
  if (isWeights) {
    for (int64_t k = 0; k < lines.depth; ++k) {
      const int64_t magnitude = weightMagnitude(iteration, k);
      sink(k, weightSigns(iteration, k, line) & 1 ? magnitude : -magnitude);
    }
    return;
  }
  const uint64_t block = static_cast<uint64_t>(blocks.deviceOf(line));
  const uint64_t local = static_cast<uint64_t>(blocks.localOf(line));
  const uint64_t random = splitMix(splitMix(salt + iteration) + static_cast<uint64_t>(line));
  const uint64_t width = static_cast<uint64_t>(lines.depth / segments);
  const uint64_t place = local + shiftOf(3 * uint64_t(iteration) + 5 * block + salt, width);
  const uint64_t mark = kLineStep * local + kBlockStep * block + iteration + salt;
  uint64_t segment = (local + iteration) % static_cast<uint64_t>(segments);
  for (int64_t entry = 0; entry < entries; ++entry) {
    const uint64_t range = static_cast<uint64_t>(high - low + 1);
    const auto magnitude = low + static_cast<int64_t>((mark + kSegmentStep * segment) % range);
    const bool isPositive = splitMix(random + segment / kWord) >> (segment % kWord) & 1;
    const uint64_t k = segment * width + (width == 1 ? 0 : place % width);
    sink(static_cast<int64_t>(k), isPositive ? magnitude : -magnitude);
    segment = segment + 1 == static_cast<uint64_t>(segments) ? 0 : segment + 1;
  }
}

void Pattern::fill(uint32_t iteration, int64_t rank, DType dtype, void *data) const {
  const int64_t count = lines.placement.localElements(), depth = lines.localDepth();
  std::memset(data, 0, static_cast<size_t>(count * depth * sizeOf(dtype)));
  const Part part{rank, lines.devices == 1 ? 0 : rank * depth, lines.areRows ? depth : 1,
                  lines.areRows ? 1 : count};
  const Encoder encoder(dtype, exponent, static_cast<int64_t>(most()), data);
  if (isWeights)
    fillWeights(iteration, part, encoder);
  else
    fillMarks(iteration, part, encoder);
}

void Pattern::fillMarks(uint32_t iteration, const Part &part, const Encoder &encoder) const {
  for (int64_t local = 0; local < lines.placement.localElements(); ++local)
    line(iteration, lines.placement.globalOf(part.rank, local), [&](int64_t k, int64_t value) {
      if (k >= part.firstK && k < part.firstK + lines.localDepth())
        encoder.store(local * part.toNextLine + (k - part.firstK) * part.toNextK, value);
    });
}

/// Lines whose signs are in the same words are written together.
void Pattern::fillWeights(uint32_t iteration, const Part &part, const Encoder &encoder) const {
  const int64_t inner = lines.placement.inner;
  int64_t together = 0;
  for (int64_t local = 0; local < lines.placement.localElements(); local += together) {
    const int64_t global = lines.placement.globalOf(part.rank, local);
    together = std::min(inner - local % inner, kWord - global % kWord);
    for (int64_t k = 0; k < lines.localDepth(); ++k) {
      const int64_t magnitude = weightMagnitude(iteration, part.firstK + k);
      uint64_t signs = weightSigns(iteration, part.firstK + k, global);
      int64_t at = local * part.toNextLine + k * part.toNextK;
      for (int64_t i = 0; i < together; ++i, signs >>= 1, at += part.toNextLine)
        encoder.store(at, signs & 1 ? magnitude : -magnitude);
    }
  }
}

void Pattern::addWeights(uint32_t iteration, int64_t k, double factor,
                         llvm::MutableArrayRef<double> sums) const {
  const double positive = factor * static_cast<double>(weightMagnitude(iteration, k));
  const double added[2] = {-positive, positive};
  const int64_t count = static_cast<int64_t>(sums.size());
  for (int64_t line = 0; line < count; line += kWord) {
    uint64_t signs = weightSigns(iteration, k, line);
    for (int64_t end = std::min(count, line + kWord), i = line; i < end; ++i, signs >>= 1)
      sums[i] += added[signs & 1];
  }
}

} // namespace braid::reference
