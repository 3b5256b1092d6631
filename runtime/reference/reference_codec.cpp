//===- runtime/reference/reference_codec.cpp - the reference's view of the element types ------===//
#include "runtime/reference/reference_codec.h"

namespace braid::reference {

namespace {

template <class To, class From> To bitsOf(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

std::optional<uint64_t> encodeF16(uint32_t single) {
  const uint32_t sign = (single >> 16) & 0x8000;
  if ((single & 0x7fffffff) == 0)
    return sign;
  const int exponent = static_cast<int>((single >> 23) & 0xff) - 127;
  const bool fits = exponent >= -14 && exponent <= 15 && (single & 0x1fff) == 0;
  if (!fits)
    return std::nullopt;
  const uint32_t mantissa = (single >> 13) & 0x3ff;
  return sign | (static_cast<uint32_t>(exponent + 15) << 10) | mantissa;
}

// Lambdas rather than functions, so that loadAs() inlines them.
constexpr auto kDecodeBF16 = [](uint16_t bits) -> double {
  return bitsOf<float>(static_cast<uint32_t>(bits) << 16);
};

constexpr auto kDecodeF16 = [](uint16_t bits) -> double {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const double magnitude = mantissa * 0x1p-24;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return bitsOf<float>(sign | (wide << 23) | (mantissa << 13));
};

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

std::optional<uint64_t> encodeExactly(DType dtype, double value) {
  if (dtype == DType::F64)
    return bitsOf<uint64_t>(value);
  const float narrowed = static_cast<float>(value);
  if (static_cast<double>(narrowed) != value)
    return std::nullopt;
  const uint32_t single = bitsOf<uint32_t>(narrowed);
  if (dtype == DType::F32)
    return single;
  if (dtype == DType::F16)
    return encodeF16(single);
  if ((single & 0xffff) != 0)
    return std::nullopt;
  return single >> 16;
}

bool isExact(DType dtype, double value) { return encodeExactly(dtype, value).has_value(); }

uint64_t nanBits(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return 0x7fc0;
  case DType::F16:
    return 0x7e00;
  case DType::F32:
    return 0x7fc00000;
  case DType::F64:
    break;
  }
  return 0x7ff8000000000000;
}

void load(DType dtype, const void *data, int64_t begin, llvm::MutableArrayRef<double> out) {
  switch (dtype) {
  case DType::BF16:
    return loadAs<uint16_t>(data, begin, out, kDecodeBF16);
  case DType::F16:
    return loadAs<uint16_t>(data, begin, out, kDecodeF16);
  case DType::F32:
    return loadAs<float>(data, begin, out, [](float value) { return double(value); });
  case DType::F64:
    return loadAs<double>(data, begin, out, [](double value) { return value; });
  }
}

} // namespace braid::reference
