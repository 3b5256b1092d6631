//===- tests/property/uneven_sums_test.cpp - sums of uneven rows ------------------------------===//
//
// Sums over devices with uneven rows, scattered and replicated, are compared with a sum computed
// here. Padding rows must keep their contents.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/property/thinning.h"
#include "tests/support/configured.h"
#include "tests/support/local_mesh.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace braid::test {
namespace {

constexpr int64_t kDepth = 3, kColumns = 2;

struct SumCase {
  int64_t ranks, total;
  bool isScattered;

  int64_t rows() const { return (total + ranks - 1) / ranks; }
  std::string text() const {
    return fmt::format("fusion @f(D = {}, M = {}) {{\n"
                       "  mesh [0 .. D)\n"
                       "  %X = input f32[D, ceil(M, D), DIDx{{D}}, {}]\n"
                       "  %W = input f32[DIDx{{D}}, {}, {}]\n"
                       "  %Y = matmul %X, %W : f32[{}, ceil(M, D), {}]\n"
                       "  output %Y\n}}\n",
                       ranks, total, kDepth, kDepth, kColumns, isScattered ? "DIDx{D}" : "D",
                       kColumns);
  }
};

float x(int64_t rank, int64_t row, int64_t k) {
  return static_cast<float>((7 * rank + 5 * row + k) % 11 - 3);
}
float w(int64_t rank, int64_t k, int64_t n) {
  return static_cast<float>((3 * rank + 2 * k + 5 * n) % 7 - 2);
}

float sumOf(const SumCase &sum, int64_t row, int64_t column) {
  float result = 0;
  for (int64_t rank = 0; rank < sum.ranks; ++rank)
    for (int64_t k = 0; k < kDepth; ++k)
      result += x(rank, row, k) * w(rank, k, column);
  return result;
}

/// A rank's inputs, and NaNs as the initial result.
struct Tensors {
  std::vector<float> x, w, y;

  Tensors(const SumCase &sum, int64_t rank) {
    for (int64_t row = 0; row < sum.ranks * sum.rows(); ++row)
      for (int64_t k = 0; k < kDepth; ++k)
        x.push_back(row < sum.total ? test::x(rank, row, k) : 1000);
    for (int64_t k = 0; k < kDepth; ++k)
      for (int64_t n = 0; n < kColumns; ++n)
        w.push_back(test::w(rank, k, n));
    const int64_t blocks = sum.isScattered ? 1 : sum.ranks;
    y.assign(static_cast<size_t>(blocks * sum.rows() * kColumns), std::nanf(""));
  }
};

void compare(const SumCase &sum, int64_t rank, const Tensors &tensors) {
  const int64_t first = sum.isScattered ? rank * sum.rows() : 0;
  for (size_t i = 0; i < tensors.y.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), row = first + at / kColumns;
    if (row < sum.total)
      ASSERT_EQ(tensors.y[i], sumOf(sum, row, at % kColumns)) << "rank " << rank << ", row " << row;
    else
      ASSERT_TRUE(std::isnan(tensors.y[i])) << "rank " << rank << ", row " << row;
  }
}

void runAndCompare(const SumCase &sum, const std::string &schedule) {
  SCOPED_TRACE(sum.text() + schedule);
  auto source = parseSource("sum.braid", sum.text());
  Result<Compiled> compiled = compile(*source, {.schedule = configured(schedule)});
  ASSERT_TRUE(compiled.isOk()) << source->diags.str() << compiled.status().message();
  BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = sum.ranks});
  ASSERT_TRUE(mesh.isOk() && (*mesh)->prepare(*compiled).isOk());
  std::vector<Tensors> ranks;
  for (int64_t rank = 0; rank < sum.ranks; ++rank)
    ranks.emplace_back(sum, rank);
  std::vector<RunArguments> arguments;
  for (Tensors &each : ranks)
    arguments.push_back({{each.x.data(), each.w.data()}, {each.y.data()}});
  (*mesh)->run(arguments);
  ASSERT_TRUE((*mesh)->synchronize().isOk());
  for (int64_t rank = 0; rank < sum.ranks; ++rank)
    compare(sum, rank, ranks[static_cast<size_t>(rank)]);
}

TEST(UnevenSums, EveryRowThatExistsIsTheSum) {
  Thinning thinning;
  for (int64_t ranks : {2, 3, 4, 8})
    for (int64_t total : {1, 2, 5, 9, 13})
      for (bool isScattered : {true, false})
        for (const char *protocol : {"get", "put"})
          for (const char *schedule :
               {"pairwise", "pairwise;placement=shared", "pairwise;partials=peer", "bulk", "ring",
                "ring;partials=peer"}) {
            const bool isAtPeers = std::string(schedule).find("peer") != std::string::npos;
            if (isAtPeers && std::string(protocol) == "get")
              continue;
            const SumCase sum{ranks, total, isScattered};
            const bool isRing = std::string(schedule).starts_with("ring");
            const char *shots = isScattered ? "" : ";reduction=two-shot";
            for (const char *reduction : {"", shots}) {
              if ((isRing || isAtPeers) && !isScattered && std::string(reduction).empty())
                continue;
              if (thinning.choosesNext())
                runAndCompare(sum, fmt::format("{};protocol={}{}", schedule, protocol, reduction));
              if (sum.rows() > 1 && std::string(schedule) != "bulk" && thinning.choosesNext())
                runAndCompare(
                    sum, fmt::format("{};protocol={};chunks=2{}", schedule, protocol, reduction));
            }
          }
}

} // namespace
} // namespace braid::test
