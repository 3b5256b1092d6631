//===- tests/backends/compute_test.cpp - conformance: GEMMs and sums --------------------------===//

#include "tests/backends/backend_test.h"
#include "tests/support/elements.h"

#include <cmath>
#include <random>

namespace braid::test {
namespace {

constexpr DType kDTypes[] = {DType::BF16, DType::F16, DType::F32, DType::F64};

struct Gemm {
  DType dtype;
  bool transposeB, hasBias;
  int64_t m, n, k;
  std::optional<DType> partial = {}; ///< c's type, if it differs from that of the operands

  DType result() const { return partial.value_or(dtype); }
};

std::ostream &operator<<(std::ostream &os, const Gemm &p) {
  return os << name(p.dtype).str() << " " << p.m << "x" << p.n << "x" << p.k
            << (p.partial ? " to " + name(*p.partial).str() : "")
            << (p.transposeB ? " transposed" : "") << (p.hasBias ? " with bias" : "");
}

/// Returns integers, whose sums are exact in any order. Some exceed the precision of 16-bit types.
std::vector<double> integers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double &value : values)
    value = int(random() % 17) - 8;
  return values;
}

/// Returns a dot product. ThreadSanitizer does not instrument this function, which would otherwise
/// take most of the suite's time.
__attribute__((no_sanitize("thread"))) double dot(const double *a, const double *b, int64_t step,
                                                  int64_t count) {
  double sum = 0;
  for (int64_t l = 0; l < count; ++l)
    sum += a[l] * b[l * step];
  return sum;
}

std::vector<double> multiplied(const Gemm &p, const std::vector<double> &a,
                               const std::vector<double> &b, const std::vector<double> &bias) {
  std::vector<double> c(p.m * p.n);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      const double *row = a.data() + i * p.k;
      double sum =
          p.transposeB ? dot(row, b.data() + j * p.k, 1, p.k) : dot(row, b.data() + j, p.n, p.k);
      c[i * p.n + j] = rounded(p.result(), p.hasBias ? sum + bias[j] : sum);
    }
  return c;
}

class ComputeTest : public BackendTest {
protected:
  void warm(const Gemm &p, bool hasAddend = false) {
    PlanMatmul shape{p.dtype, p.m, p.n, p.k, p.transposeB, {}, {}, {}, {}, false, p.partial};
    shape.bias.bytes = p.hasBias ? p.n * sizeOf(p.dtype) : 0;
    shape.addend.bytes = hasAddend ? p.m * p.n * sizeOf(p.result()) : 0;
    EXPECT_EQ(message(device().compute().warm(shape)), "");
  }
  char *uploadElements(DType dtype, const std::vector<double> &values) {
    return upload(encodeAll(dtype, values));
  }
  std::vector<double> downloadElements(DType dtype, const void *memory, int64_t count) {
    return decodeAll(dtype, download<char>(memory, count * sizeOf(dtype)));
  }

  std::vector<double> onDevice(const Gemm &p, const std::vector<double> &a,
                               const std::vector<double> &b, const std::vector<double> &bias,
                               const std::vector<double> &addend = {}, bool isInPlace = false) {
    warm(p, !addend.empty());
    // The previous contents of c must not affect the result, even if they are NaN.
    const std::vector<double> unused(p.m * p.n, NAN);
    char *c = uploadElements(p.result(), isInPlace ? addend : unused);
    MatmulArgs args{p.dtype,
                    p.transposeB,
                    p.m,
                    p.n,
                    p.k,
                    uploadElements(p.dtype, a),
                    uploadElements(p.dtype, b),
                    p.hasBias ? uploadElements(p.dtype, bias) : nullptr,
                    addend.empty() ? nullptr
                    : isInPlace    ? c
                                   : uploadElements(p.result(), addend),
                    c,
                    false,
                    p.result()};
    device().compute().matmul(1, tag(CommandKind::Matmul), args);
    return downloadElements(p.result(), c, p.m * p.n);
  }

  void check(const Gemm &p) {
    std::vector<double> a = integers(p.m * p.k, 1), b = integers(p.k * p.n, 2);
    std::vector<double> bias = integers(p.n, 3);
    std::vector<double> got = onDevice(p, a, b, bias), expected = multiplied(p, a, b, bias);
    for (int64_t i = 0; i < p.m * p.n; ++i)
      ASSERT_EQ(got[i], expected[i]) << p << ", element " << i;
  }
};

TEST_P(ComputeTest, MultipliesAllShapes) {
  BRAID_NEEDS_RESULTS();
  start(1);
  constexpr int64_t kShapes[][3] = {{1, 1, 1},    {1, 5, 3},     {7, 1, 5},    {5, 3, 1},
                                    {1, 1, 40},   {1, 90, 1},    {90, 1, 1},   {17, 13, 11},
                                    {64, 64, 64}, {33, 129, 65}, {128, 70, 31}};
  for (DType dtype : kDTypes)
    for (bool transposeB : {false, true})
      for (bool hasBias : {false, true})
        for (const int64_t *s : kShapes)
          check({dtype, transposeB, hasBias, s[0], s[1], s[2]});
}

TEST_P(ComputeTest, MultipliesLongShapes) {
  BRAID_NEEDS_RESULTS();
  start(1);
  constexpr int64_t kShapes[][3] = {{3, 2, 30011}, {20011, 2, 3}, {2, 20011, 3}, {65, 66, 16401}};
  for (bool transposeB : {false, true})
    for (const int64_t *s : kShapes) {
      check({DType::BF16, transposeB, true, s[0], s[1], s[2]});
      check({DType::F32, transposeB, true, s[0], s[1], s[2]});
    }
}

TEST_P(ComputeTest, MultipliesToPartialResults) {
  BRAID_NEEDS_RESULTS();
  start(1);
  // Most sums of 2999 products need more precision than the type of the operands provides.
  constexpr int64_t kShapes[][3] = {{1, 1, 1},    {1, 5, 3},     {7, 1, 5},     {17, 13, 11},
                                    {64, 64, 64}, {33, 129, 65}, {40, 24, 2999}};
  for (DType dtype : {DType::BF16, DType::F16})
    for (bool transposeB : {false, true})
      for (bool hasBias : {false, true})
        for (const int64_t *s : kShapes)
          check({dtype, transposeB, hasBias, s[0], s[1], s[2], DType::F32});
}

TEST_P(ComputeTest, MultipliesToPartialResultsAnywhere) {
  BRAID_NEEDS_RESULTS();
  start(1);
  for (bool hasBias : {false, true}) {
    const Gemm p{DType::BF16, true, hasBias, 24, 40, 64, DType::F32};
    warm(p);
    std::vector<double> a = integers(p.m * p.k, 1), b = integers(p.k * p.n, 2),
                        bias = integers(p.n, 3), before(p.m * p.n + 2, 5.0);
    // One element before an operand, or before c, shifts the data off 16-byte alignment.
    auto uploadBehindOne = [&](std::vector<double> values) {
      values.insert(values.begin(), NAN);
      return uploadElements(p.dtype, values) + sizeOf(p.dtype);
    };
    char *c = uploadElements(DType::F32, before);
    MatmulArgs args{p.dtype,
                    p.transposeB,
                    p.m,
                    p.n,
                    p.k,
                    uploadBehindOne(a),
                    uploadBehindOne(b),
                    hasBias ? uploadBehindOne(bias) : nullptr,
                    nullptr,
                    c + sizeOf(DType::F32),
                    false,
                    DType::F32};
    device().compute().matmul(1, tag(CommandKind::Matmul), args);
    std::vector<double> expected = multiplied(p, a, b, bias);
    expected.insert(expected.begin(), 5.0);
    expected.push_back(5.0);
    EXPECT_EQ(downloadElements(DType::F32, c, p.m * p.n + 2), expected) << p;
  }
}

TEST_P(ComputeTest, AddsToAllShapes) {
  BRAID_NEEDS_RESULTS();
  start(1);
  constexpr int64_t kShapes[][3] = {{1, 1, 1},    {1, 5, 3},     {7, 1, 5},     {17, 13, 11},
                                    {64, 64, 64}, {33, 129, 65}, {128, 72, 256}};
  for (DType dtype : kDTypes)
    for (DType result : {dtype, dtype == DType::F64 ? dtype : DType::F32})
      for (bool transposeB : {false, true})
        for (const int64_t *s : kShapes) {
          Gemm p{dtype, transposeB, false, s[0], s[1], s[2]};
          if (result != dtype)
            p.partial = result;
          const std::vector<double> a = integers(p.m * p.k, 1), b = integers(p.k * p.n, 2),
                                    addend = integers(p.m * p.n, 4);
          Gemm exact = p;
          exact.partial = dtype == DType::F64 ? DType::F64 : DType::F32;
          const std::vector<double> product = multiplied(exact, a, b, {}),
                                    got = onDevice(p, a, b, {}, addend),
                                    inPlace = onDevice(p, a, b, {}, addend, /*isInPlace=*/true);
          for (size_t i = 0; i < product.size(); ++i) {
            const double expected = rounded(result, product[i] + addend[i]);
            ASSERT_EQ(got[i], expected) << p << ", element " << i;
            // In place, the product may be rounded before it is added.
            const double twice = rounded(result, rounded(result, product[i]) + addend[i]);
            ASSERT_TRUE(inPlace[i] == expected || inPlace[i] == twice)
                << p << ", element " << i << ": " << inPlace[i] << ", expected " << expected
                << " or " << twice;
          }
        }
}

TEST_P(ComputeTest, AddsBeforeRounding) {
  BRAID_NEEDS_RESULTS();
  start(1);
  // 257 is between the bf16 numbers 256 and 258, so sums that are rounded too early become 256.
  std::vector<double> a(64, 0.0), b(64, 1.0);
  for (int64_t row = 0; row < 8; ++row)
    a[row * 8] = 256, a[row * 8 + 1] = 1;
  const std::vector<double> expected(64, 258.0), ones(64, 1.0);
  EXPECT_EQ(onDevice({DType::BF16, false, true, 8, 8, 8}, a, b, std::vector<double>(8, 1.0)),
            expected);
  EXPECT_EQ(onDevice({DType::BF16, false, false, 8, 8, 8}, a, b, {}, ones), expected);
}

TEST_P(ComputeTest, AccumulatesInWiderType) {
  BRAID_NEEDS_RESULTS();
  start(1);
  // Computes 1024 + 1 + ... + 1, where a 16-bit sum would stay at 1024 or 2048.
  for (DType dtype : {DType::BF16, DType::F16}) {
    std::vector<double> ones(3073, 1.0), first(3073, 1.0);
    first[0] = 1024;
    Gemm p{dtype, false, false, 1, 1, 3073};
    EXPECT_EQ(onDevice(p, first, ones, {}), std::vector<double>{4096});
  }
  std::vector<double> tiny{1, 0x1p-40};
  Gemm p{DType::F64, false, false, 1, 1, 2};
  EXPECT_EQ(onDevice(p, tiny, {1, 1}, {}), std::vector<double>{1 + 0x1p-40});
}

TEST_P(ComputeTest, MultipliesOnManyStreamsAtOnce) {
  BRAID_NEEDS_RESULTS();
  constexpr uint32_t kStreams = 24;
  start(1, kStreams);
  Gemm p{DType::BF16, true, false, 40, 50, 60};
  warm(p);
  std::vector<double> a = integers(p.m * p.k, 1), b = integers(p.k * p.n, 2);
  std::vector<double> expected = multiplied(p, a, b, {});
  char *deviceA = uploadElements(p.dtype, a), *deviceB = uploadElements(p.dtype, b);
  std::vector<void *> results;
  for (uint32_t stream = 0; stream < kStreams; ++stream) {
    results.push_back(allocate(p.m * p.n * sizeOf(p.dtype)));
    MatmulArgs args{p.dtype, p.transposeB,   p.m,   p.n,    p.k, deviceA, deviceB, nullptr,
                    nullptr, results.back(), false, p.dtype};
    for (int repeat = 0; repeat < 10; ++repeat)
      device().compute().matmul(stream, tag(CommandKind::Matmul), args);
  }
  for (void *result : results)
    EXPECT_EQ(downloadElements(p.dtype, result, p.m * p.n), expected);
}

//===- Bitwise equal results ------------------------------------------------------------------===//

/// Returns random numbers of full precision, so that sums depend on the order of additions.
std::vector<double> uniform(DType dtype, int64_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  std::vector<double> values(count);
  for (double &value : values)
    value = rounded(dtype, distribution(random));
  return values;
}

/// Multiplies ranges of A's rows, without copying them first.
class SameBitsTest : public ComputeTest {
protected:
  void startReproducibly() {
    start(1, 4, std::chrono::milliseconds(20000), /*isReproducible=*/true);
    EXPECT_TRUE(device().compute().isReproducible());
  }

  /// Checks that each range of rows has the same bits as in the GEMM of all `p.m` rows.
  void check(const Gemm &p, const std::vector<std::pair<int64_t, int64_t>> &ranges) {
    SCOPED_TRACE(testing::Message() << p);
    const int64_t pitch = p.n * sizeOf(p.result());
    MatmulArgs args{p.dtype, p.transposeB, p.m,     p.n,     p.k,   nullptr,
                    nullptr, nullptr,      nullptr, nullptr, false, p.result()};
    args.b = uploadElements(p.dtype, uniform(p.dtype, p.k * p.n, 2));
    args.bias = p.hasBias ? uploadElements(p.dtype, uniform(p.dtype, p.n, 3)) : nullptr;
    const char *a = uploadElements(p.dtype, uniform(p.dtype, p.m * p.k, 1));
    char *c = static_cast<char *>(allocate(p.m * pitch));
    auto multiply = [&](int64_t first, int64_t rows) {
      Gemm part = p;
      part.m = args.m = rows;
      warm(part);
      args.a = a + first * p.k * sizeOf(p.dtype);
      args.c = c + first * pitch;
      device().compute().matmul(1, tag(CommandKind::Matmul), args);
      return download<char>(args.c, static_cast<size_t>(rows * pitch));
    };
    const std::vector<char> all = multiply(0, p.m);
    for (auto [first, rows] : ranges)
      EXPECT_TRUE(std::equal(all.begin() + first * pitch, all.begin() + (first + rows) * pitch,
                             multiply(first, rows).begin()))
          << "rows from " << first << " on, " << rows << " of them";
  }
};

TEST_P(SameBitsTest, OfARowWhateverMIs) {
  BRAID_NEEDS_RESULTS();
  startReproducibly();
  // Libraries tend to split K if it is large and there are few columns. CPU devices are slow, so
  // they use small shapes.
  const bool isHost = device().sharesHostMemory();
  const int64_t m = isHost ? 96 : 4096, n = isHost ? 16 : 256, k = isHost ? 300 : 4096;
  const std::vector<std::pair<int64_t, int64_t>> ranges = {{0, 1},     {0, 17},        {5, 12},
                                                           {m - 1, 1}, {m / 2, m / 2}, {3, m / 16}};
  for (bool transposeB : {false, true}) {
    for (DType dtype : kDTypes)
      for (bool hasBias : {false, true}) {
        check({dtype, transposeB, hasBias, m, n, k}, ranges);
        check({dtype, transposeB, hasBias, m, isHost ? 9 : 65, isHost ? 131 : 1027}, ranges);
      }
    check({DType::BF16, transposeB, false, m, n, k, DType::F32}, ranges);
  }
}

BRAID_CONFORMANCE(ComputeTest);
BRAID_CONFORMANCE(SameBitsTest);

} // namespace
} // namespace braid::test
