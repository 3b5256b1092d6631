//===- tests/backends/numeric_test.cpp - conversions of 16-bit elements, exhaustively ---------===//

#include "runtime/numeric.h"

#include "tests/support/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace braid::test {
namespace {

bool sameFloat(float a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b) && std::signbit(a) == std::signbit(b);
  return double(a) == b && std::signbit(a) == std::signbit(b);
}

template <class Element> void checkNarrow(DType dtype, float value) {
  uint16_t got = narrow<Element>(value).bits;
  uint64_t expected = encode(dtype, value);
  if (std::isnan(value))
    EXPECT_TRUE(std::isnan(decode(dtype, got)) && (got >> 15) == (expected >> 15)) << value;
  else
    EXPECT_EQ(got, expected) << std::hexfloat << value;
}

template <class Element> void checkEveryPattern(DType dtype) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = widen(Element{static_cast<uint16_t>(bits)});
    ASSERT_TRUE(sameFloat(value, decode(dtype, bits))) << std::hex << bits;
    checkNarrow<Element>(dtype, value);
  }
}

/// Rounds the midpoint between adjacent values, and the nearest f32 below and above the midpoint.
template <class Element> void checkEveryTie(DType dtype) {
  for (uint32_t bits = 0; bits < 65535; ++bits) {
    double low = decode(dtype, bits), high = decode(dtype, bits + 1);
    if (!std::isfinite(low) || std::isnan(high) || std::signbit(low) != std::signbit(high))
      continue;
    if (std::isinf(high)) // what the next value would be if the exponent had more bits
      high = low + (low - decode(dtype, bits - 1));
    float middle = static_cast<float>(low / 2 + high / 2);
    for (float value : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, INFINITY),
                        std::nextafter(middle, -INFINITY)})
      checkNarrow<Element>(dtype, value);
  }
}

template <class Element> void checkRandomFloats(DType dtype) {
  std::mt19937 random(5);
  for (int i = 0; i < 300000; ++i)
    checkNarrow<Element>(dtype, std::bit_cast<float>(static_cast<uint32_t>(random())));
}

TEST(NumericTest, WidensAndNarrowsEveryBF16) { checkEveryPattern<BF16>(DType::BF16); }
TEST(NumericTest, WidensAndNarrowsEveryF16) { checkEveryPattern<F16>(DType::F16); }
TEST(NumericTest, RoundsTiesToEvenInBF16) { checkEveryTie<BF16>(DType::BF16); }
TEST(NumericTest, RoundsTiesToEvenInF16) { checkEveryTie<F16>(DType::F16); }
TEST(NumericTest, NarrowsAnyFloatToBF16) { checkRandomFloats<BF16>(DType::BF16); }
TEST(NumericTest, NarrowsAnyFloatToF16) { checkRandomFloats<F16>(DType::F16); }

TEST(NumericTest, ComputesInTheTypeOfTheElement) {
  for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64})
    withElement(dtype, [&](auto element) {
      EXPECT_EQ(int64_t(sizeof(element)), sizeOf(dtype));
      EXPECT_EQ(sizeof(widen(element)), dtype == DType::F64 ? 8u : 4u);
    });
}

} // namespace
} // namespace braid::test
