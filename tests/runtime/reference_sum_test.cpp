//===- tests/runtime/reference_sum_test.cpp - the reference detects errors in sums ------------===//
//
// Computes the partial result of every device. Then one partial result is omitted, added twice, or
// replaced by that of another iteration, rank, row or block. If a partial result is omitted or
// added twice, every element of the sum must differ from the correct value. Otherwise, most
// elements of every block must differ.
//
//===--------------------------------------------------------------------------------===//
#include "tests/runtime/reference_world.h"
#include "tests/support/random_fusion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <random>

using namespace braid;
using namespace braid::test;

namespace {

/// A GEMM whose contracted axis is split over devices. It has `ranks` blocks of `rows` rows, or a
/// single block if `lead` is empty.
struct SumShape {
  int64_t ranks, rows, depth, columns; ///< depth is the depth on one device
  const char *dtype = "bf16";
  const char *partial = "";
  bool isLinear = false;          ///< adds a bias
  const char *lead = "DIDx{D}, "; ///< the axis over blocks of rows in the result
};

std::string textOf(const SumShape &shape) {
  const auto [d, r, l, n, dtype, partial, isLinear, lead] = shape;
  const char *blocks = *lead ? "D, " : "";
  std::string text = fmt::format("fusion @sum(D = {}) {{\n  mesh [0 .. D)\n", d);
  text += fmt::format("  %A = input {}[{}{}, DIDx{{D}}, {}]\n", dtype, blocks, r, l);
  if (isLinear)
    text +=
        fmt::format("  %B = input {0}[{1}, DIDx{{D}}, {2}]\n  %b = input {0}[{1}]\n", dtype, n, l);
  else
    text += fmt::format("  %B = input {}[DIDx{{D}}, {}, {}]\n", dtype, l, n);
  return text + fmt::format("  %C = {} %A, %B{} {} : {}[{}{}, {}]\n  output %C\n}}\n",
                            isLinear ? "linear" : "matmul", isLinear ? ", %b" : "", partial, dtype,
                            lead, r, n);
}

/// The tensor-parallel MLP without its activation function.
std::string mlpText(int64_t d, int64_t rows, int64_t k, int64_t f, int64_t n,
                    const char *dtype = "bf16", const char *partial = "partial f32") {
  return fmt::format(R"(fusion @mlp(D = {}, R = {}, K = {}, F = {}, N = {}) {{
  mesh [0 .. D)
  %X = input {dtype}[DIDx{{D}}, R, K]
  %W1 = input {dtype}[K, DIDx{{D}}, F]
  %W2 = input {dtype}[DIDx{{D}}, F, N]
  %H = matmul %X, %W1 : {dtype}[Stream{{D}}, R, DIDx{{D}}, F]
  %Y = matmul %H, %W2 {partial} : {dtype}[DIDx{{D}}, R, N]
  output %Y
}}
)",
                     d, rows, k, f, n, fmt::arg("dtype", dtype), fmt::arg("partial", partial));
}

/// Small shapes: one row, one column, depth 1, odd extents, more columns than depth.
std::vector<SumShape> sumShapes() {
  std::vector<SumShape> shapes;
  for (int64_t d = 2; d <= 8; ++d) {
    const SumShape some[] = {{d, 1, 1, 1}, {d, 3, 1, 4}, {d, 1, 2, 7},  {d, 3, 5, 1},
                             {d, 1, 5, 4}, {d, 2, 9, 2}, {d, 1, 12, 4}, {d, 3, 12, 7}};
    shapes.insert(shapes.end(), std::begin(some), std::end(some));
  }
  const SumShape more[] = {{16, 2, 8, 8},
                           {16, 1, 3, 2},
                           {4, 3, 6, 5, "f16", "partial f32"},
                           {4, 3, 6, 5, "bf16", "partial f32"},
                           {4, 3, 6, 5, "bf16", "partial bf16"},
                           {3, 3, 6, 5, "f32"},
                           {3, 3, 6, 5, "f64"},
                           {5, 3, 6, 5, "f64", "", true},
                           {4, 2, 9, 6, "bf16", "", true},
                           {8, 1, 4, 3, "f16", "partial f32", true},
                           {4, 2, 6, 5, "bf16", "", false, "Stream{D}, "},
                           {4, 2, 6, 5, "bf16", "", true, "D, "},
                           {4, 8, 6, 5, "bf16", "", true, ""},
                           {4, 7, 6, 5, "f32", "", false, ""},
                           {5, 3, 6, 5, "f16", "", false, ""}};
  shapes.insert(shapes.end(), std::begin(more), std::end(more));
  return shapes;
}

std::vector<std::string> mlpTexts() {
  return {mlpText(2, 3, 8, 4, 6),
          mlpText(4, 1, 16, 8, 8),
          mlpText(3, 2, 7, 5, 9),
          mlpText(8, 2, 16, 4, 4),
          mlpText(8, 1, 16, 8, 3),
          mlpText(4, 2, 3, 2, 5),
          mlpText(4, 3, 9, 1, 1, "f16"),
          mlpText(16, 1, 64, 32, 40),
          mlpText(5, 2, 10, 10, 10, "f64", ""),
          mlpText(2, 5, 6, 3, 7, "f32")};
}

std::vector<std::string> textsOf(const std::vector<SumShape> &shapes) {
  std::vector<std::string> texts;
  for (const SumShape &shape : shapes)
    texts.push_back(textOf(shape));
  return texts;
}

std::vector<std::string> sumTexts() { return textsOf(sumShapes()); }

/// Returns the fusions for tests that damage every element.
std::vector<std::string> smallTexts() {
  return textsOf({{2, 3, 5, 4},
                  {3, 1, 4, 2},
                  {4, 1, 1, 1},
                  {3, 2, 2, 5, "f16", "partial f32"},
                  {4, 2, 3, 3, "f64", "", true},
                  {3, 2, 5, 1, "bf16", "", false, "Stream{D}, "},
                  {3, 4, 2, 3, "f32", "", true, ""},
                  {8, 1, 2, 3}});
}

std::vector<std::string> allTexts() {
  std::vector<std::string> texts = sumTexts();
  for (const std::string &text : mlpTexts())
    texts.push_back(text);
  return texts;
}

/// The sum that a fusion outputs, and the partial results of the sum in an iteration.
class Sums {
public:
  explicit Sums(const std::string &text, uint32_t now = kNow) : world(text), text_(text) {
    world.load(now);
    columns = world.fusion().globalShape(tensor().type).back();
  }

  const FusionTensor &tensor() { return *world.fusion().outputs()[0]; }
  const std::string &text() const { return text_; }
  int64_t rows() { return static_cast<int64_t>(right().size()) / columns; }
  /// Returns the number of rows in a block. There is one block per rank; the last may be shorter.
  int64_t rowsPerBlock() { return (rows() + world.ranks() - 1) / world.ranks(); }

  const Values &right() { return world.valuesOf(tensor()); }
  /// Returns the partial result of a rank from `age` iterations ago.
  const Values &partial(int64_t rank, uint32_t age = 0) {
    std::vector<Values> &all = partials_[age];
    if (all.empty()) {
      world.load(kNow - age);
      for (int64_t each = 0; each < world.ranks(); ++each)
        all.push_back(world.partial(tensor(), each));
      world.load(kNow);
    }
    return all[rank];
  }

  /// Rounds `values` to the result's type and returns the ranks that reject the rounded values.
  std::vector<int64_t> objectingRanks(Values values) {
    for (double &value : values)
      value = rounded(tensor().type.dtype, value);
    return world.objectingRanks(values);
  }

  World world;
  int64_t columns;
  static constexpr uint32_t kNow = 40;

private:
  std::string text_;
  std::map<uint32_t, std::vector<Values>> partials_;
};

/// Counts elements that an error leaves unchanged.
struct Unseen {
  int64_t elements = 0, of = 0;

  void count(double before, double after) {
    elements += before == after;
    ++of;
  }
  double share() const { return of ? double(elements) / double(of) : 0; }
};

/// Compares a row of the correct partial result with the row that replaces it.
void compareRows(const Values &mine, const Values &other, int64_t row, int64_t otherRow,
                 int64_t columns, Unseen &unseen) {
  for (int64_t n = 0; n < columns; ++n)
    unseen.count(mine[row * columns + n], other[otherRow * columns + n]);
}

// -- Errors that are detected in every element. --

TEST(ReferenceSum, AcceptsWhatTheDefinitionGives) {
  for (const std::string &text : allTexts())
    for (uint32_t iteration : {0u, 1u, 61u, 4000000000u}) {
      World world(text);
      world.load(iteration);
      ASSERT_EQ(world.objectingRanks(), std::vector<int64_t>{}) << text << iteration;
    }
}

TEST(ReferenceSum, AMissingOrDoubledPartialResultIsRefused) {
  for (const std::string &text : allTexts()) {
    Sums sums(text);
    for (int64_t rank = 0; rank < sums.world.ranks(); ++rank)
      for (double factor : {-1, 1}) {
        Values wrong = sums.right();
        add(wrong, sums.partial(rank), factor);
        ASSERT_EQ(sums.objectingRanks(wrong), sums.world.allRanks()) << text << rank;
      }
  }
}

/// Partial results are small enough that their sums are exact in bf16, in any order.
TEST(ReferenceSum, MagnitudesAddUpTo256AtMost) {
  std::vector<std::string> texts = allTexts();
  texts.push_back(textOf({16, 4, 40, 24, "bf16", "", true}));
  texts.push_back(textOf({9, 4, 40, 24, "bf16", "", true}));
  texts.push_back(textOf({13, 2, 7, 24, "bf16", "", true}));
  for (const std::string &text : texts) {
    if (text.find("bf16") == std::string::npos)
      continue;
    Sums sums(text);
    Values total(sums.right().size(), 0.0), bias = sums.right();
    for (int64_t rank = 0; rank < sums.world.ranks(); ++rank) {
      add(bias, sums.partial(rank), -1);
      for (size_t at = 0; at < total.size(); ++at)
        total[at] += std::fabs(sums.partial(rank)[at]);
    }
    for (size_t at = 0; at < total.size(); ++at)
      ASSERT_LE(total[at] + std::fabs(bias[at]), 256) << text;
  }
}

TEST(ReferenceSum, AWrongNumberOfBiasesIsRefused) {
  for (const SumShape &shape : sumShapes()) {
    if (!shape.isLinear)
      continue;
    Sums sums(textOf(shape));
    Values withoutBias(sums.right().size(), 0.0);
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      add(withoutBias, sums.partial(rank));
    for (int64_t times : {int64_t(0), int64_t(2), shape.ranks}) {
      Values wrong = withoutBias;
      add(wrong, sums.right(), double(times));
      add(wrong, withoutBias, -double(times));
      for (size_t at = 0; at < wrong.size(); ++at)
        ASSERT_NE(sums.right()[at], wrong[at]) << sums.text() << times;
      ASSERT_EQ(sums.objectingRanks(wrong), sums.world.allRanks()) << sums.text() << times;
    }
  }
}

TEST(ReferenceSum, EveryElementOfAFirstOperandCounts) {
  for (const std::string &text : smallTexts()) {
    Sums sums(text);
    for (double &element : sums.world.input(0)) {
      element += 1;
      ASSERT_FALSE(sums.world.objectingRanks().empty()) << text;
      element -= 1;
    }
  }
}

/// On every rank, the number of rows is at least one device's part of the depth.
TEST(ReferenceSum, EveryElementOfASecondOperandCountsForEveryRank) {
  for (const std::string &text : textsOf({{2, 5, 5, 4},
                                          {3, 4, 4, 2},
                                          {4, 1, 1, 1},
                                          {3, 2, 2, 5, "f16", "partial f32"},
                                          {4, 4, 3, 3, "f64", "", true},
                                          {3, 5, 5, 1, "bf16", "", false, "Stream{D}, "},
                                          {3, 6, 2, 3, "f32", "", true, ""}})) {
    Sums sums(text);
    for (double &element : sums.world.input(1)) {
      element += 1;
      sums.world.forgetGemms();
      ASSERT_EQ(sums.objectingRanks(sums.right()), sums.world.allRanks()) << text;
      element -= 1;
    }
  }
}

// -- Errors that some elements do not show. --

/// Replaces the partial result with that of another rank, block or iteration.
struct Mistake {
  uint32_t age;
  bool isOtherRank, isOtherBlock;
};

/// Returns the fraction of elements that do not show the mistake, over all pairs of ranks and
/// blocks that fit the mistake. Expects at least one element of every block to show the mistake.
double shareUnseen(Sums &sums, const Mistake &mistake) {
  Unseen all;
  const int64_t step = sums.rowsPerBlock(), ranks = sums.world.ranks();
  for (int64_t right = 0; right < ranks * ranks; ++right)
    for (int64_t wrong = 0; wrong < ranks * ranks; ++wrong) {
      const int64_t rank = right % ranks, block = right / ranks;
      const int64_t otherRank = wrong % ranks, otherBlock = wrong / ranks;
      if ((rank != otherRank) != mistake.isOtherRank ||
          (block != otherBlock) != mistake.isOtherBlock)
        continue;
      Unseen here;
      for (int64_t row = 0; row < step; ++row)
        compareRows(sums.partial(rank), sums.partial(otherRank, mistake.age), block * step + row,
                    otherBlock * step + row, sums.columns, here);
      EXPECT_LT(here.share(), 1) << sums.text() << right << " " << wrong;
      all.elements += here.elements;
      all.of += here.of;
    }
  return all.share();
}

TEST(ReferenceSum, AnotherPartialResultIsSeenInEveryBlockAndMostElements) {
  for (int64_t ranks : {2, 3, 4, 8, 16})
    for (const std::string &text : {textOf({ranks, ranks == 16 ? 16 : 4, 12, 8}),
                                    mlpText(ranks, 4, 2 * ranks, 2 * ranks, 2 * ranks),
                                    mlpText(ranks, 4, 2 * ranks, 3 * ranks, 5)}) {
      Sums sums(text);
      const uint32_t old = static_cast<uint32_t>(ranks);
      for (const Mistake &mistake :
           {Mistake{0, true, false}, Mistake{0, false, true}, Mistake{0, true, true},
            Mistake{1, false, false}, Mistake{1, true, false}, Mistake{1, false, true},
            Mistake{old, false, false}})
        EXPECT_LE(shareUnseen(sums, mistake), 0.6)
            << text << mistake.age << mistake.isOtherRank << mistake.isOtherBlock;
    }
}

TEST(ReferenceSum, AnotherShardOfAnOperandIsRefused) {
  for (const std::string &text : {textOf({4, 2, 6, 5}), textOf({3, 3, 5, 2}), textOf({8, 1, 9, 4})})
    for (size_t operand : {0, 1})
      for (int64_t by = 1; by < 3; ++by) {
        Sums sums(text);
        const int64_t ranks = sums.world.ranks(), depth = sums.world.depthOf(sums.tensor());
        // The first operand is [rows, depth], the second is [depth, columns].
        Values &values = sums.world.input(operand);
        const auto length = static_cast<int64_t>(values.size());
        const int64_t row = operand == 0 ? depth : length;
        for (auto begin = values.begin(); begin != values.end(); begin += row)
          std::rotate(begin, begin + by * row / ranks, begin + row);
        sums.world.forgetGemms();
        EXPECT_EQ(sums.objectingRanks(sums.right()), sums.world.allRanks()) << text << operand;
      }
}

/// Shifts one block of a rank's partial result by one element.
TEST(ReferenceSum, AShiftByOneIsRefused) {
  for (const std::string &text : {textOf({4, 3, 6, 5}), textOf({2, 2, 7, 1}), textOf({8, 1, 5, 4}),
                                  textOf({16, 2, 9, 9}), mlpText(4, 2, 8, 8, 5)}) {
    Sums sums(text);
    const int64_t rowsThere = sums.rowsPerBlock() * sums.columns;
    for (int64_t rank = 0; rank < sums.world.ranks(); ++rank)
      for (int64_t block = 0; block < sums.world.ranks(); ++block) {
        Values moved = sums.partial(rank), wrong = sums.right();
        const auto begin = moved.begin() + block * rowsThere;
        std::rotate(begin, begin + 1, begin + rowsThere);
        add(wrong, sums.partial(rank), -1);
        add(wrong, moved);
        EXPECT_EQ(sums.objectingRanks(wrong), std::vector<int64_t>{block}) << text << rank;
      }
  }
}

/// One rank of an MLP gathers a wrong block of rows. The owner of these rows detects the error,
/// because the owner adds the partial result of that rank.
TEST(ReferenceSum, ABlockThatOneRankGathersIsSeenByItsOwner) {
  for (const std::string &text : {mlpText(2, 3, 8, 4, 6), mlpText(4, 1, 16, 8, 3),
                                  mlpText(3, 2, 7, 5, 9), mlpText(5, 1, 10, 10, 10)}) {
    Sums sums(text);
    const Values now = sums.world.input(0), older = sums.world.globalOf(0, Sums::kNow - 1);
    const auto length = static_cast<int64_t>(now.size()) / sums.world.ranks();
    for (int64_t rank = 0; rank < sums.world.ranks(); ++rank)
      for (int64_t block = 0; block < sums.world.ranks(); ++block)
        for (const Values &wrongBlock : {older, Values(now.size(), 0.0)}) {
          Values wrong = sums.right();
          add(wrong, sums.partial(rank), -1);
          std::copy_n(wrongBlock.begin() + block * length, length,
                      sums.world.input(0).begin() + block * length);
          sums.world.forgetGemms();
          add(wrong, sums.world.partial(sums.tensor(), rank));
          sums.world.input(0) = now;
          sums.world.forgetGemms();
          EXPECT_EQ(sums.objectingRanks(wrong), std::vector<int64_t>{block}) << text << rank;
        }
  }
}

// -- Other fusions that contain sums. --

/// These fusions contain split columns of the result, replicated operands, two sums that share an
/// operand, biases, longer chains, sums that are operands, and a device axis that spans the whole
/// depth.
const char *const kOthers[] = {"sum_of_columns", "replicated", "two",   "sum_of_biased",
                               "sum_of_chain",   "mlps",       "depth", "many"};

TEST(ReferenceSum, JudgesOtherFusions) {
  for (const char *name : kOthers)
    for (uint32_t iteration : {0u, 1u, 2u, 77u}) {
      World world(fusionNamed(name));
      world.load(iteration);
      EXPECT_EQ(world.objectingRanks(), std::vector<int64_t>{}) << name << iteration;
    }
}

TEST(ReferenceSum, JudgesRandomFusions) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = randomCase(seed, {.sums = true, .uneven = false}).text;
    World world(text, seed);
    world.load(static_cast<uint32_t>(seed % 7));
    ASSERT_EQ(world.objectingRanks(), std::vector<int64_t>{}) << text;
  }
}

TEST(ReferenceSum, RefusesAMissingPartialResultInOtherFusions) {
  for (const char *name : kOthers) {
    Sums sums(fusionNamed(name));
    for (int64_t rank = 0; rank < sums.world.ranks(); ++rank) {
      Values wrong = sums.right();
      add(wrong, sums.partial(rank), -1);
      EXPECT_FALSE(sums.objectingRanks(wrong).empty()) << name << rank;
    }
  }
}

} // namespace
