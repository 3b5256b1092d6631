//===- tests/support/elements.cpp - reference conversions of element types --------------------===//

#include "tests/support/elements.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace braid::test {

namespace {

struct Format {
  int fractionBits, exponentBits;
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  uint64_t exponentMask() const { return (uint64_t(1) << exponentBits) - 1; }
};

Format formatOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return {7, 8};
  case DType::F16:
    return {10, 5};
  case DType::F32:
    return {23, 8};
  case DType::F64:
    return {52, 11};
  }
  return {};
}

} // namespace

double decode(DType dtype, uint64_t bits) {
  Format format = formatOf(dtype);
  uint64_t fraction = bits & ((uint64_t(1) << format.fractionBits) - 1);
  uint64_t exponent = (bits >> format.fractionBits) & format.exponentMask();
  bool isNegative = (bits >> (format.fractionBits + format.exponentBits)) & 1;
  double scaled = std::ldexp(double(fraction), -format.fractionBits);
  double magnitude;
  if (exponent == format.exponentMask())
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(scaled, 1 - format.bias());
  else
    magnitude = std::ldexp(1 + scaled, int(exponent) - format.bias());
  return std::copysign(magnitude, isNegative ? -1.0 : 1.0);
}

uint64_t encode(DType dtype, double value) {
  Format format = formatOf(dtype);
  uint64_t sign = uint64_t(std::signbit(value)) << (format.fractionBits + format.exponentBits);
  uint64_t infinity = format.exponentMask() << format.fractionBits;
  if (std::isnan(value))
    return sign | infinity | (uint64_t(1) << (format.fractionBits - 1));
  if (std::isinf(value))
    return sign | infinity;
  // Adjacent values differ by 2^(exponent - fractionBits); subnormals have the smallest exponent.
  double magnitude = std::fabs(value);
  int exponent = magnitude == 0 ? 1 - format.bias() : std::ilogb(magnitude);
  exponent = std::max(exponent, 1 - format.bias());
  double steps = std::nearbyint(std::ldexp(magnitude, format.fractionBits - exponent));
  // For a fixed sign, bit patterns increase with the value, across exponents and up to infinity.
  uint64_t base = uint64_t(exponent + format.bias() - 1) << format.fractionBits;
  return sign | std::min(base + uint64_t(steps), infinity);
}

double rounded(DType dtype, double value) { return decode(dtype, encode(dtype, value)); }

std::vector<char> encodeAll(DType dtype, const std::vector<double> &values) {
  size_t size = static_cast<size_t>(sizeOf(dtype));
  std::vector<char> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = encode(dtype, values[i]);
    std::memcpy(bytes.data() + i * size, &bits, size); // assumes a little-endian host
  }
  return bytes;
}

std::vector<double> decodeAll(DType dtype, const std::vector<char> &bytes) {
  size_t size = static_cast<size_t>(sizeOf(dtype));
  std::vector<double> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    values[i] = decode(dtype, bits);
  }
  return values;
}

} // namespace braid::test
