//===- runtime/reference/reference_codec.cpp - the reference's view of the element types ------===//
#include "runtime/reference/reference_codec.h"

#include <array>
#include <cmath>
#include <cstring>

namespace braid::reference {

namespace {

/// A binary format: sign, exponent, and so many bits of the mantissa after the leading one.
struct Format {
  int mantissa, bias;

  uint64_t leadingOne() const { return uint64_t(1) << mantissa; }
  int infinity() const { return 2 * bias + 1; } ///< the exponent of infinities and NaNs
};

Format formatOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return {7, 127};
  case DType::F16:
    return {10, 15};
  case DType::F32:
    return {23, 127};
  case DType::F64:
    break;
  }
  return {52, 1023};
}

double decode(Format format, uint16_t bits) {
  const int exponent = (bits >> format.mantissa) & format.infinity();
  const auto fraction = static_cast<double>(bits & (format.leadingOne() - 1));
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == format.infinity())
    return fraction != 0 ? std::nan("") : sign * INFINITY;
  const double leading = exponent == 0 ? 0 : static_cast<double>(format.leadingOne());
  const int unit = std::max(exponent, 1) - format.bias - format.mantissa;
  return sign * std::ldexp(fraction + leading, unit);
}

using Table = std::array<double, 0x10000>;

Table decodeAll(DType dtype) {
  Table table;
  for (size_t bits = 0; bits < table.size(); ++bits)
    table[bits] = decode(formatOf(dtype), static_cast<uint16_t>(bits));
  return table;
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
  return sign | uint64_t(exponent) << to.mantissa | (bits >> dropped & (to.leadingOne() - 1));
}

bool isExact(DType dtype, double value) { return encodeExactly(dtype, value).has_value(); }

uint64_t nanBits(DType dtype) {
  const Format format = formatOf(dtype);
  return uint64_t(format.infinity()) << format.mantissa | format.leadingOne() / 2;
}

void store(DType dtype, uint64_t bits, void *data, int64_t index) {
  char *begin = static_cast<char *>(data);
  if (dtype == DType::F64) // the low bytes come first, so fewer of them are copied below
    std::memcpy(begin + index * 8, &bits, 8);
  else if (dtype == DType::F32)
    std::memcpy(begin + index * 4, &bits, 4);
  else
    std::memcpy(begin + index * 2, &bits, 2);
}

void load(DType dtype, const void *data, int64_t begin, llvm::MutableArrayRef<double> out) {
  static const Table ofBF16 = decodeAll(DType::BF16), ofF16 = decodeAll(DType::F16);
  if (dtype == DType::F64)
    return loadAs<double>(data, begin, out, [](double value) { return value; });
  if (dtype == DType::F32)
    return loadAs<float>(data, begin, out, [](float value) { return double(value); });
  const Table &table = dtype == DType::BF16 ? ofBF16 : ofF16;
  loadAs<uint16_t>(data, begin, out, [&](uint16_t bits) { return table[bits]; });
}

} // namespace braid::reference
