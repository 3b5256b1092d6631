//===- runtime/reference/reference_codec.cpp - exact conversions of element types -------------===//
#include "runtime/reference/reference_codec.h"

#include <cstring>
#include <iterator>

namespace braid::reference {

namespace {

/// A binary floating-point format: sign, exponent, and `mantissa` explicit bits of the mantissa.
struct Format {
  int mantissa, bias;

  int infinity() const { return 2 * bias + 1; } ///< the exponent field of infinity and NaN
};

Format formatOf(DType dtype) {
  static constexpr Format kFormats[] = {{7, 127}, {10, 15}, {23, 127}, {52, 1023}};
  static_assert(std::size(kFormats) == static_cast<size_t>(DType::F64) + 1);
  return kFormats[static_cast<size_t>(dtype)];
}

/// Decodes a 16-bit number: aligns its exponent field with that of f32, and scales by the
/// difference in bias.
double decodeHalf(Format format, uint16_t half) {
  const int moved = 23 - format.mantissa;
  const bool isFinite = (half >> format.mantissa & format.infinity()) != format.infinity();
  const uint32_t sign = uint32_t(half >> 15) << 31, magnitude = uint32_t(half & 0x7fff) << moved;
  const uint32_t bits = sign | magnitude | (isFinite ? 0 : 0x7f800000);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return format.bias == 127 || !isFinite ? value : value * 0x1p112;
}

template <class Bits, class Decode>
void loadAs(const void *data, int64_t begin, llvm::MutableArrayRef<double> out, Decode decode) {
  const char *at = static_cast<const char *>(data) + begin * static_cast<int64_t>(sizeof(Bits));
  for (double &value : out) {
    Bits bits;
    std::memcpy(&bits, at, sizeof(bits));
    at += sizeof(bits);
    value = decode(bits);
  }
}

} // namespace

int digitsOf(DType dtype) { return formatOf(dtype).mantissa + 1; }

std::optional<uint64_t> encodeExactly(DType dtype, double value) {
  const Format to = formatOf(dtype), from = formatOf(DType::F64);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint64_t sign = bits >> 63 << (8 * sizeOf(dtype) - 1);
  if (value == 0)
    return sign;
  const int dropped = from.mantissa - to.mantissa;
  const int exponent = ((bits >> from.mantissa) & 0x7ff) - from.bias + to.bias;
  const bool isRounded = (bits & ((uint64_t(1) << dropped) - 1)) != 0;
  if (isRounded || exponent < 1 || exponent >= to.infinity())
    return std::nullopt;
  return sign | uint64_t(exponent) << to.mantissa |
         (bits >> dropped & ((uint64_t(1) << to.mantissa) - 1));
}

void store(DType dtype, uint64_t bits, void *data, int64_t index) {
  const int64_t size = sizeOf(dtype);
  std::memcpy(static_cast<char *>(data) + index * size, &bits, static_cast<size_t>(size));
}

void load(DType dtype, const void *data, int64_t begin, llvm::MutableArrayRef<double> out) {
  const Format format = formatOf(dtype);
  if (dtype == DType::F64)
    return loadAs<double>(data, begin, out, [](double value) { return value; });
  if (dtype == DType::F32)
    return loadAs<float>(data, begin, out, [](float value) { return double(value); });
  loadAs<uint16_t>(data, begin, out, [&](uint16_t half) { return decodeHalf(format, half); });
}

} // namespace braid::reference
