//===- tests/runtime/gemm_choice_test.cpp - measured GEMMs as text ----------------------------===//

#include "runtime/tune/gemm_choice.h"

#include "runtime/plan/plan.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(GemmChoice, KeysTellApartWhatIsMultipliedDifferently) {
  const Range some{0, 0, 2};
  EXPECT_EQ(gemmKey({DType::BF16, 128, 512, 1024, false, {}, {}, {}, {}}),
            "GEMM bf16 128x512x1024");
  EXPECT_EQ(gemmKey({DType::F64, 1, 2, 3, true, {}, {}, {}, some}), "GEMM f64 1x2x3 bT bias");
  EXPECT_EQ(gemmKey({DType::BF16, 1, 2, 3, false, {}, {}, {}, {}, /*overlaps=*/true}),
            "GEMM bf16 1x2x3 overlapped");
  EXPECT_EQ(gemmKey({DType::BF16, 1, 2, 3, true, {}, {}, {}, {}, false, DType::F32}),
            "GEMM bf16 1x2x3 to f32 bT");
  EXPECT_EQ(gemmKey({DType::BF16, 1, 2, 3, false, some, some, some, {}}),
            gemmKey({DType::BF16, 1, 2, 3, false, {}, {}, {}, {}}));
}

TEST(GemmChoice, IsReadAsItWasWritten) {
  const GemmChoice choice{1234.5, std::string("\x00\x7f\xff", 3)};
  EXPECT_EQ(choice.encode(), "1234.50 007fff");
  Result<GemmChoice> read = GemmChoice::decode(choice.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->microseconds, 1234.5);
  EXPECT_EQ(read->algorithm, choice.algorithm);
}

TEST(GemmChoice, AnythingElseIsRefused) {
  for (const char *text :
       {"", " ", "1.00", "1.00 0", "1.00 0A", "1.00 0g", "1.0 00", "01.00 00", "+1.00 00",
        "0.00 00", "-1.00 00", "nan 00", "inf 00", "1.00  00", "1.00 00 ", "1.00 00\n", "x 00"})
    EXPECT_EQ(GemmChoice::decode(text).status().code(), StatusCode::BadInput) << text;
}

} // namespace
} // namespace braid
