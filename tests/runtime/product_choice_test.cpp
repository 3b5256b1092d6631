//===- tests/runtime/product_choice_test.cpp - measured products as text --===//

#include "runtime/tune/gemm_choice.h"

#include "runtime/plan/plan.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(ProductChoice, KeysTellApartWhatIsMultipliedDifferently) {
  const Range some{0, 0, 2};
  EXPECT_EQ(productKey({DType::BF16, 128, 512, 1024, false, {}, {}, {}, {}}),
            "product bf16 128x512x1024");
  EXPECT_EQ(productKey({DType::F64, 1, 2, 3, true, {}, {}, {}, some}), "product f64 1x2x3 bT bias");
  EXPECT_EQ(productKey({DType::BF16, 1, 2, 3, false, {}, {}, {}, {}, /*overlaps=*/true}),
            "product bf16 1x2x3 overlapped");
  EXPECT_EQ(productKey({DType::BF16, 1, 2, 3, false, some, some, some, {}}),
            productKey({DType::BF16, 1, 2, 3, false, {}, {}, {}, {}}));
}

TEST(ProductChoice, IsReadAsItWasWritten) {
  const ProductChoice choice{1234.5, std::string("\x00\x7f\xff", 3)};
  EXPECT_EQ(choice.encode(), "1234.50 007fff");
  Result<ProductChoice> read = ProductChoice::decode(choice.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->microseconds, 1234.5);
  EXPECT_EQ(read->algorithm, choice.algorithm);
}

TEST(ProductChoice, AnythingElseIsRefused) {
  for (const char *text :
       {"", " ", "1.00", "1.00 0", "1.00 0A", "1.00 0g", "1.0 00", "01.00 00", "+1.00 00",
        "0.00 00", "-1.00 00", "nan 00", "inf 00", "1.00  00", "1.00 00 ", "1.00 00\n", "x 00"})
    EXPECT_EQ(ProductChoice::decode(text).status().code(), StatusCode::BadInput) << text;
}

} // namespace
} // namespace braid
