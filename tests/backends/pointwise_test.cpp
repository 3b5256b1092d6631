//===- tests/backends/pointwise_test.cpp - conformance: elementwise functions -----------------===//

#include "tests/backends/backend_test.h"
#include "tests/support/elements.h"
#include "tests/support/pointwise_value.h"

#include <cmath>

namespace braid::test {
namespace {

constexpr PointwiseFunction kFunctions[] = {
#define BRAID_POINTWISE(Function, ...) PointwiseFunction::Function,
#include "ir/pointwise_functions.def"
};

/// Types of the operands and of the result: all equal, or f32 combined with one 16-bit type.
struct Types {
  DType first, second, result;
};
constexpr Types kTypes[] = {
    {DType::F32, DType::F32, DType::BF16},  {DType::BF16, DType::F32, DType::BF16},
    {DType::F32, DType::BF16, DType::F32},  {DType::F16, DType::F16, DType::F16},
    {DType::F32, DType::F16, DType::F16},   {DType::F32, DType::F32, DType::F32},
    {DType::BF16, DType::BF16, DType::F32}, {DType::F64, DType::F64, DType::F64}};

/// Returns the maximum error relative to the largest intermediate: half a unit in the last place of
/// the result, plus the accumulator's error.
double toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return 0x1p-8;
  case DType::F16:
    return 0x1p-10;
  case DType::F32:
    return 0x1p-20;
  case DType::F64:
    return 0x1p-48;
  }
  return 0;
}

class PointwiseTest : public BackendTest {
protected:
  using Step = PointwiseStep<PointwiseArgs::Operand>;

  char *put(DType dtype, const std::vector<double> &values, int64_t behind) {
    std::vector<double> all(behind, NAN);
    all.insert(all.end(), values.begin(), values.end());
    return upload(encodeAll(dtype, all)) + behind * sizeOf(dtype);
  }

  /// Returns the elements of dst. The elements before and after dst must stay NaN.
  std::vector<double> results(DType dtype, int64_t elements, int64_t behind,
                              PointwiseArgs::Operand first, const std::vector<Step> &steps) {
    const int64_t all = behind + elements + 1;
    char *to = upload(encodeAll(dtype, std::vector<double>(all, NAN)));
    PointwiseArgs args{dtype, elements, to + behind * sizeOf(dtype), first, uint32_t(steps.size()),
                       {}};
    std::copy(steps.begin(), steps.end(), args.steps);
    device().compute().pointwise(1, tag(CommandKind::Pointwise), args);
    std::vector<double> got = decodeAll(dtype, download<char>(to, all * sizeOf(dtype)));
    EXPECT_TRUE(std::isnan(got.back()));
    for (int64_t i = 0; i < behind; ++i)
      EXPECT_TRUE(std::isnan(got[i]));
    return {got.begin() + behind, got.end() - 1};
  }

  void check(PointwiseFunction function, const Types &types, int64_t elements, int64_t behind) {
    std::vector<double> x, y;
    for (int64_t i = 0; i < elements; ++i) {
      x.push_back(rounded(types.first, (i % 41 - 20) * 0.37 + 0.013 * double(i % 7)));
      y.push_back(rounded(types.second, 1.75 - double(i % 29) * 0.19));
    }
    const char *second = put(types.second, y, 2 * behind);
    const bool isTwo = isBinary(function);
    const std::vector<double> got =
        results(types.result, elements, behind, {types.first, put(types.first, x, behind)},
                {{function, {types.second, isTwo ? second : nullptr}}});
    for (int64_t i = 0; i < elements; ++i) {
      const double expected = pointwiseValue(function, x[i], y[i]);
      ASSERT_NEAR(got[i], expected,
                  toleranceOf(types.result) * std::max({std::fabs(expected), std::fabs(x[i]), 1.0}))
          << keyword(function).str() << " of " << x[i] << " and " << y[i] << ", "
          << name(types.result).str() << ", element " << i << " of " << elements;
    }
  }
};

TEST_P(PointwiseTest, ComputesEveryFunctionInEveryType) {
  BRAID_NEEDS_RESULTS();
  start(1);
  for (PointwiseFunction function : kFunctions)
    for (const Types &types : kTypes)
      for (auto [elements, behind] :
           {std::pair<int64_t, int64_t>{1, 0}, {64, 0}, {403, 0}, {64, 1}, {131, 3}})
        check(function, types, elements, behind);
}

/// Uses more elements than a GPU has resident threads.
TEST_P(PointwiseTest, ComputesManyElements) {
  BRAID_NEEDS_RESULTS();
  start(1);
  check(PointwiseFunction::GeluTanh, kTypes[0], 3000004, 0);
  check(PointwiseFunction::Multiply, kTypes[1], 700001, 1);
}

/// Computes silu(x) * y for numbers whose low bits would be lost if an intermediate were rounded.
TEST_P(PointwiseTest, RoundsOnceBehindAChain) {
  BRAID_NEEDS_RESULTS();
  start(1);
  std::vector<double> x, y;
  for (int64_t i = 0; i < 200; ++i) {
    x.push_back(rounded(DType::F32, 0.1 + 0.01 * double(i)));
    y.push_back(rounded(DType::F32, 3.3 - 0.007 * double(i)));
  }
  const std::vector<double> got =
      results(DType::BF16, 200, 0, {DType::F32, put(DType::F32, x, 0)},
              {{PointwiseFunction::Silu, {DType::F32, nullptr}},
               {PointwiseFunction::Multiply, {DType::F32, put(DType::F32, y, 0)}}});
  int same = 0, apart = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const double silu = pointwiseValue(PointwiseFunction::Silu, x[i], 0);
    same += got[i] == rounded(DType::BF16, silu * y[i]);
    apart += rounded(DType::BF16, silu * y[i]) !=
             rounded(DType::BF16, rounded(DType::BF16, silu) * y[i]);
  }
  EXPECT_GE(same, 198); // an f32 value close to a tie may round the other way
  EXPECT_GE(apart, 30);
}

TEST_P(PointwiseTest, RoundsWithoutAFunction) {
  BRAID_NEEDS_RESULTS();
  start(1);
  std::vector<double> values;
  for (int64_t i = 0; i < 77; ++i)
    values.push_back(rounded(DType::F32, 1 + 0.001 * double(i)));
  const std::vector<double> got =
      results(DType::F16, 77, 0, {DType::F32, put(DType::F32, values, 0)}, {});
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(got[i], rounded(DType::F16, values[i]));
}

/// Results at 0 and far from 0 must be exact, so that verification can compare all bits.
TEST_P(PointwiseTest, IsExactFarFromZero) {
  BRAID_NEEDS_RESULTS();
  start(1);
  for (DType dtype : {DType::F32, DType::F64})
    for (PointwiseFunction function : kFunctions) {
      if (isBinary(function))
        continue;
      const double far = dtype == DType::F64 ? 1024 : 128;
      const std::vector<double> x = {0, far, -far, 2 * far, -2 * far, 3 * far, -130 * far};
      const std::vector<double> got = results(
          dtype, int64_t(x.size()), 0, {dtype, put(dtype, x, 0)}, {{function, {dtype, nullptr}}});
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(got[i], std::max(x[i], 0.0)) << keyword(function).str() << " of " << x[i];
    }
}

TEST_P(PointwiseTest, KeepsNaNs) {
  BRAID_NEEDS_RESULTS();
  start(1);
  for (PointwiseFunction function : kFunctions) {
    const char *second = put(DType::F32, {1}, 0);
    const std::vector<double> got =
        results(DType::F32, 1, 0, {DType::F32, put(DType::F32, {NAN}, 0)},
                {{function, {DType::F32, isBinary(function) ? second : nullptr}}});
    EXPECT_TRUE(std::isnan(got[0])) << keyword(function).str();
  }
}

BRAID_CONFORMANCE(PointwiseTest);

} // namespace
} // namespace braid::test
