//===- runtime/reference/reference_pattern.cpp - the values of one input ----------------------===//
#include "runtime/reference/reference_pattern.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/split_mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace braid::reference {

namespace {

/// Signs are the bits of random words, one bit for each of kWord neighbors.
constexpr int64_t kWord = 64;

/// The increment of a mark per line, block or segment, modulo the number of distinct marks; the
/// increment per iteration is 1. With at least 31 marks, the marks of blocks up to 4 apart differ
/// even if one block is up to 4 iterations old.
constexpr uint64_t kLineStep = 29, kBlockStep = 25, kSegmentStep = 13;

/// Returns the shift of the marks in a group of `width` neighboring lines, where `width` is the
/// number of elements in a segment. `turn` is a random number that is the same for all lines of the
/// group. The shift is neither 0 nor half the segment, so that a square matrix with one mark per
/// line is not its own transpose.
uint64_t shiftOf(uint64_t turn, uint64_t width) {
  if (width == 1)
    return 0;
  const uint64_t shift = 1 + turn % (width - 1);
  return width > 2 && 2 * shift == width ? shift + 1 : shift;
}

} // namespace

double Pattern::most() const {
  const bool isOdd = segments == 1 && lines.depth % 2 != 0;
  return kind == Kind::Weights && high > 1 && isOdd ? 4 : static_cast<double>(high);
}

int64_t Pattern::mostAcross() const {
  const int64_t width = kind == Kind::Weights ? 1 : lines.depth / segments;
  const int64_t local = lines.placement.localElements();
  return lines.placement.devices * ((local + width - 1) / width);
}

/// Returns element k of a line of weights, in multiples of the power of two.
double Pattern::weight(uint32_t iteration, int64_t k, int64_t line) const {
  const uint64_t random = splitMix(splitMix(salt + iteration) + static_cast<uint64_t>(k));
  const bool isPositive =
      splitMix(random + static_cast<uint64_t>(line / kWord)) >> line % kWord & 1;
  const bool isLast = k + 1 == lines.depth && most() == 4;
  const double magnitude = isLast ? 4 : high == 1 || (k + line / 2 + iteration) % 2 == 0 ? 1 : 2;
  return isPositive ? magnitude : -magnitude;
}

void Pattern::line(uint32_t iteration, int64_t line, Sink sink) const {
  const double unit = std::ldexp(1.0, exponent);
  if (kind == Kind::Weights) {
    for (int64_t k = 0; k < lines.depth; ++k)
      sink(k, unit * weight(iteration, k, line));
    return;
  }
  const uint64_t range = static_cast<uint64_t>(high - low + 1);
  const uint64_t count = static_cast<uint64_t>(segments), width = uint64_t(lines.depth) / count;
  const uint64_t block = static_cast<uint64_t>(lines.placement.deviceOf(line));
  const uint64_t local = static_cast<uint64_t>(lines.placement.localOf(line));
  const uint64_t drawn = splitMix(salt + iteration);
  const uint64_t random = splitMix(drawn + static_cast<uint64_t>(line));
  const uint64_t turn = splitMix(drawn + local / width + (block << 32));
  const uint64_t place = local + shiftOf(turn >> 1, width);
  const uint64_t first = kLineStep * local + kBlockStep * block + iteration + salt;
  for (int64_t entry = 0; entry < entries; ++entry) {
    const uint64_t segment = (local + iteration + static_cast<uint64_t>(entry)) % count;
    const uint64_t mark = static_cast<uint64_t>(low) + (first + kSegmentStep * segment) % range;
    const uint64_t sign = splitMix(random + segment / kWord) >> (segment % kWord) & 1;
    sink(static_cast<int64_t>(segment * width + (width == 1 ? 0 : place % width)),
         static_cast<double>(mark) * (sign ? unit : -unit));
  }
}

void Pattern::fill(uint32_t iteration, int64_t rank, DType dtype, void *data) const {
  const int64_t count = lines.placement.localElements(), depth = lines.depth / lines.devices;
  const int64_t firstK = lines.devices == 1 ? 0 : rank * depth;
  const int64_t toNextLine = lines.areRows ? depth : 1, toNextK = lines.areRows ? 1 : count;
  std::vector<int64_t> numbers; ///< global numbers of the rank's lines
  for (int64_t local = 0; local < count; ++local)
    numbers.push_back(lines.placement.globalOf(rank, local));
  const auto put = [&](int64_t local, int64_t k, double value) {
    store(dtype, encodeExactly(dtype, value).value_or(0), data, local * toNextLine + k * toNextK);
  };
  if (kind == Kind::Weights) {
    const double unit = std::ldexp(1.0, exponent);
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t local = 0; local < count; ++local)
        put(local, k, unit * weight(iteration, firstK + k, numbers[local]));
    return;
  }
  std::memset(data, 0, static_cast<size_t>(count * depth * sizeOf(dtype)));
  for (int64_t local = 0; local < count; ++local)
    line(iteration, numbers[local], [&](int64_t k, double value) {
      if (k >= firstK && k < firstK + depth)
        put(local, k - firstK, value);
    });
}

void Pattern::addWeights(uint32_t iteration, int64_t k, double factor,
                         llvm::MutableArrayRef<double> sums) const {
  factor = std::ldexp(factor, exponent);
  for (size_t line = 0; line < sums.size(); ++line)
    sums[line] += factor * weight(iteration, k, static_cast<int64_t>(line));
}

} // namespace braid::reference
