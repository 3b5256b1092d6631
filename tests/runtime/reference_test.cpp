//===- tests/runtime/reference_test.cpp - the reference is correct and detects errors ---------===//
//
// Compares the reference with a second evaluation (reference_world.h). Then damages the inputs in
// every way that an incorrect run could damage them, computes the result, and expects the reference
// to reject this result.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/reference/reference_codec.h"
#include "tests/runtime/reference_world.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <thread>

using namespace braid;
using namespace braid::test;
using testing::HasSubstr;

namespace {

std::string gatherMatmul(int64_t d, int64_t rows, int64_t k, int64_t n, const char *dtype = "f32") {
  return "fusion @f(D = " + std::to_string(d) + ", R = " + std::to_string(rows) +
         ", K = " + std::to_string(k) + ", N = " + std::to_string(n) + ") {\n mesh [0 .. D)\n" +
         " %A = input " + dtype + "[DIDx{D}, R, K]\n %B = input " + dtype + "[K, N]\n" +
         " %C = matmul %A, %B : " + dtype + "[Stream{D}, R, N]\n output %C\n}\n";
}

// -- The codec. --

TEST(ReferenceCodec, DecodesEveryHalf) {
  for (DType dtype : {DType::BF16, DType::F16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const uint16_t half = static_cast<uint16_t>(bits);
      double got = 0;
      reference::load(dtype, &half, 0, got);
      const double expected = decodeHalf(dtype, half);
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << bits;
    }
}

TEST(ReferenceCodec, RoundTripsIntegersThatFit) {
  const std::pair<DType, int> types[] = {
      {DType::BF16, 256}, {DType::F16, 2048}, {DType::F32, 70000}, {DType::F64, 70000}};
  for (auto [dtype, limit] : types)
    for (int value = -limit; value <= limit; ++value) {
      const auto bits = reference::encodeExactly(dtype, value);
      ASSERT_TRUE(bits) << value;
      uint64_t memory[2] = {0, 0};
      reference::store(dtype, *bits, memory, 1);
      double got = 0;
      reference::load(dtype, memory, 1, got);
      ASSERT_EQ(got, value);
    }
}

TEST(ReferenceCodec, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(reference::encodeExactly(DType::BF16, 257));
  EXPECT_TRUE(reference::encodeExactly(DType::BF16, 258));
  EXPECT_FALSE(reference::encodeExactly(DType::F16, 2049));
  EXPECT_FALSE(reference::encodeExactly(DType::F16, 65536));
  EXPECT_FALSE(reference::encodeExactly(DType::F32, 16777217));
  EXPECT_TRUE(reference::encodeExactly(DType::F64, 16777217));
}

// -- Comparison with the second evaluation. --

class Agreement : public testing::TestWithParam<const char *> {};

TEST_P(Agreement, AcceptsWhatTheDefinitionGives) {
  World world(fusionNamed(GetParam()));
  for (uint32_t iteration : {0u, 1u, 2u, 60u, 61u, 4000000000u}) {
    world.load(iteration);
    EXPECT_EQ(world.objectingRanks(), std::vector<int64_t>{}) << "iteration " << iteration;
  }
}

TEST_P(Agreement, RefusesEverySingleWrongElement) {
  World world(fusionNamed(GetParam()));
  for (size_t output = 0; output < world.fusion().outputs().size(); ++output) {
    const FusionTensor &tensor = *world.fusion().outputs()[output];
    const std::vector<char> right = world.outputOf(output, 1);
    const int64_t elements = count(world.fusion().localShape(tensor.type));
    for (int64_t at = 0; at < elements; ++at) {
      std::vector<char> wrong = right;
      const double value = get(tensor.type.dtype, right, at);
      put(tensor.type.dtype, wrong, at, value + (value < 0 ? 1 : -1));
      const Status status = world.reference().compare(output, 1, 0, wrong.data());
      EXPECT_EQ(status.code(), StatusCode::WrongResult);
      EXPECT_THAT(status.message(),
                  HasSubstr("(1 of " + std::to_string(elements) + " elements differ)"));
    }
  }
}

TEST_P(Agreement, RefusesPoison) {
  World world(fusionNamed(GetParam()));
  for (size_t output = 0; output < world.fusion().outputs().size(); ++output) {
    const std::vector<char> data(world.localBytes(*world.fusion().outputs()[output]), char(0xff));
    const FusionTensor &tensor = *world.fusion().outputs()[output];
    const std::string elements = std::to_string(count(world.fusion().localShape(tensor.type)));
    const Status status = world.reference().compare(output, 0, 0, data.data());
    EXPECT_EQ(status.code(), StatusCode::WrongResult);
    EXPECT_THAT(status.message(), HasSubstr("is nan, expected "));
    EXPECT_THAT(status.message(),
                HasSubstr("(" + elements + " of " + elements + " elements differ)"));
  }
}

INSTANTIATE_TEST_SUITE_P(Fusions, Agreement,
                         testing::Values("biased", "columns", "shared", "chain", "two_gathers",
                                         "four_axes", "split_depth", "sharded_bias", "two_axes",
                                         "local"));

// -- Damaged inputs. --

/// Returns small shapes, including one row per rank, K = 1, N = 1, N greater and less than K, and
/// primes.
std::vector<std::string> smallShapes() {
  std::vector<std::string> shapes;
  for (int64_t d : {2, 3, 5})
    for (int64_t rows : {1, 2, 3, 7})
      for (int64_t k : {1, 2, 3, 4, 7, 10, 16})
        for (int64_t n : {1, 2, 3, 5, 8, 20})
          shapes.push_back(gatherMatmul(d, rows, k, n));
  return shapes;
}

/// Returns fusions of every kind whose first operand is input 0 and is gathered by all ranks.
std::vector<std::string> gatherShapes() {
  std::vector<std::string> shapes = smallShapes();
  shapes.insert(shapes.end(), {fusionNamed("biased"), fusionNamed("columns"), fusionNamed("shared"),
                               fusionNamed("sharded_bias")});
  return shapes;
}

TEST(ReferenceDamage, EveryElementOfAFirstOperandCountsOnEveryRank) {
  for (const std::string &text : gatherShapes()) {
    World world(text);
    world.load(3);
    for (double &element : world.input(0)) {
      element += 1;
      ASSERT_EQ(world.objectingRanks(), world.allRanks()) << text;
      element -= 1;
    }
  }
}

TEST(ReferenceDamage, EveryElementOfASecondOperandCounts) {
  for (const std::string &text : smallShapes()) {
    World world(text);
    const int64_t depth = world.fusion().globalShape(world.fusion().inputs()[0]->type).back();
    const int64_t rows = static_cast<int64_t>(world.input(0).size()) / depth;
    if (rows / world.ranks() < depth)
      continue; // rows have one nonzero element each, so a block needs K rows to cover every k
    for (double &element : world.input(1)) {
      element += 1;
      ASSERT_EQ(world.objectingRanks(), world.allRanks()) << text;
      element -= 1;
    }
  }
}

Values transposed(const Values &square) {
  const auto n = static_cast<size_t>(std::sqrt(static_cast<double>(square.size())) + 0.5);
  Values result(square.size());
  for (size_t i = 0; i < square.size(); ++i)
    result[i % n * n + i / n] = square[i];
  return result;
}

/// Tries all distinct seeds and two successive iterations.
TEST(ReferenceDamage, ATransposedSecondOperandCountsOnEveryRank) {
  for (const int64_t n : {3, 4, 5, 6, 8, 16})
    for (uint64_t seed = 0; seed < 61; ++seed) {
      World world(gatherMatmul(2, 3, n, n), seed);
      for (const uint32_t iteration : {3, 4}) {
        world.load(iteration);
        world.input(1) = transposed(world.input(1));
        ASSERT_EQ(world.objectingRanks(), world.allRanks()) << n << ", seed " << seed;
      }
    }
}

TEST(ReferenceDamage, EveryBiasElementCounts) {
  World world(fusionNamed("biased"));
  for (double &element : world.input(2)) {
    element += 1;
    EXPECT_EQ(world.objectingRanks(), world.allRanks());
    element -= 1;
  }
}

/// A block of the first operand is missing, from an earlier iteration, or from another rank.
TEST(ReferenceDamage, AWrongBlockCountsOnEveryRank) {
  for (const std::string &text : gatherShapes()) {
    World world(text);
    world.load(60);
    const Values now = world.input(0);
    const size_t block = now.size() / world.ranks();
    const auto isSeen = [&](const Values &from, int64_t rank, int64_t to) {
      std::copy_n(from.begin() + rank * block, block, world.input(0).begin() + to * block);
      const bool doAllObject = world.objectingRanks() == world.allRanks();
      world.input(0) = now;
      return doAllObject;
    };
    for (uint32_t age : {0u, 1u, 2u, 3u, 4u, 17u, 60u}) {
      const Values then = world.globalOf(0, 60 - age);
      for (int64_t rank = 0; rank < world.ranks(); ++rank)
        for (int64_t to = 0; to < world.ranks(); ++to)
          if ((rank == to && age != 0) || (rank != to && age <= 4)) {
            ASSERT_TRUE(isSeen(then, rank, to)) << text << rank << to << " age " << age;
          }
    }
    for (int64_t rank = 0; rank < world.ranks(); ++rank)
      ASSERT_TRUE(isSeen(Values(now.size(), 0.0), rank, rank)) << text << rank;
  }
}

/// A block of one input replaces the same block of another input.
TEST(ReferenceDamage, ABlockOfAnotherInputCountsOnEveryRank) {
  World world(fusionNamed("two_gathers"));
  const Values now = world.input(0), other = world.input(1);
  const size_t block = now.size() / world.ranks();
  for (int64_t rank = 0; rank < world.ranks(); ++rank) {
    std::copy_n(other.begin() + rank * block, block, world.input(0).begin() + rank * block);
    EXPECT_EQ(world.objectingRanks(), world.allRanks());
    world.input(0) = now;
  }
}

/// Rotates a range of rows of a block by one element.
TEST(ReferenceDamage, AShiftByOneCountsOnEveryRank) {
  for (const std::string &text : gatherShapes()) {
    World world(text);
    const Values now = world.input(0);
    const int64_t depth = world.fusion().globalShape(world.fusion().inputs()[0]->type).back();
    const int64_t rows = static_cast<int64_t>(now.size()) / depth / world.ranks();
    for (int64_t first = 0; first < rows; ++first)
      for (int64_t last = first + 1; last <= rows; ++last) {
        const int64_t base = (world.ranks() - 1) * rows;
        const auto begin = world.input(0).begin() + (base + first) * depth;
        const auto end = world.input(0).begin() + (base + last) * depth;
        if (end - begin == 1)
          continue;
        std::rotate(begin, begin + 1, end);
        ASSERT_EQ(world.objectingRanks(), world.allRanks()) << text << first << ".." << last;
        std::rotate(begin, end - 2, end);
        ASSERT_EQ(world.objectingRanks(), world.allRanks()) << text << first << ".." << last;
        world.input(0) = now;
      }
  }
}

TEST(ReferenceBounds, ResultsStayWithin256InEveryShape) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t most) { return int64_t(1 + random() % most); };
  for (int trial = 0; trial < 60; ++trial) {
    World world(gatherMatmul(draw(4), draw(9), draw(300), draw(40), "bf16"), random());
    for (uint32_t iteration = 0; iteration < 3; ++iteration) {
      world.load(iteration);
      for (double value : world.valuesOf(*world.fusion().outputs()[0]))
        ASSERT_LE(std::fabs(value), 256);
    }
  }
}

// -- Layers of models. --

std::string gatedLayer(const char *dtype) {
  std::string text = fusionNamed("layer");
  for (size_t at = 0; (at = text.find("bf16", at)) != std::string::npos; ++at)
    text.replace(at, 4, dtype);
  return text;
}

/// Returns `count` layers with residuals. A layer multiplies silu(X U) * (X V), or gelu(X U) unless
/// `gated`, by W and adds X.
std::string residualLayers(int count, bool gated) {
  std::string inputs = "fusion @deep(D = 4, R = 4, K = 16) {\n mesh [0 .. D)\n"
                       " %X0 = input bf16[DIDx{D}, R, K]\n";
  std::string nodes;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), wide = " : bf16[Stream{D}, R, DIDx{D}, K]\n";
    const std::string narrow = " : bf16[DIDx{D}, R, K]\n";
    inputs +=
        " %U" + n + " = input bf16[K, DIDx{D}, K]\n %W" + n + " = input bf16[DIDx{D}, K, K]\n";
    nodes += " %H" + n + " = matmul %X" + n + ", %U" + n + wide;
    nodes += " %A" + n + (gated ? " = silu %H" : " = gelu %H") + n + wide;
    if (gated) {
      inputs += " %V" + n + " = input bf16[K, DIDx{D}, K]\n";
      nodes += " %J" + n + " = matmul %X" + n + ", %V" + n + wide;
      nodes += " %G" + n + " = multiply %A" + n + ", %J" + n + wide;
    }
    nodes += " %Y" + n + " = matmul %" + (gated ? "G" : "A") + n + ", %W" + n + narrow;
    nodes += " %X" + std::to_string(i + 1) + " = add %Y" + n + ", %X" + n + narrow;
  }
  return inputs + nodes + " output %X" + std::to_string(count) + "\n}\n";
}

std::vector<std::string> models() {
  return {gatedLayer("bf16"), gatedLayer("f16"), residualLayers(2, true), residualLayers(8, false),
          fusionNamed("gram")};
}

TEST(ReferenceModels, AreComparedExactly) {
  for (const std::string &text : models())
    for (uint32_t iteration : {0u, 1u, 2u, 61u}) {
      World world(text, iteration);
      world.load(iteration);
      EXPECT_EQ(world.objectingRanks(), std::vector<int64_t>{}) << text;
    }
}

/// Replaces every rank's block of every input with an old block, zeros, or the next rank's block.
TEST(ReferenceModels, ShowEveryWrongBlock) {
  for (const std::string &text : models()) {
    World world(text);
    world.load(5);
    const std::vector<Values> right = world.outputValues();
    for (size_t input = 0; input < std::min<size_t>(8, world.fusion().inputs().size()); ++input) {
      const Values now = world.input(input), old = world.globalOf(input, 4);
      Values next = now;
      std::rotate(next.begin(), next.begin() + int64_t(now.size()) / 4, next.end());
      for (const Values &wrong : {old, Values(now.size()), next})
        for (int64_t rank = 0; rank < world.ranks(); ++rank) {
          world.damageBlock(input, rank, wrong);
          EXPECT_NE(world.outputValues(), right) << text << input << " " << rank;
          world.load(5);
        }
    }
  }
}

// -- Messages, and fusions that cannot be verified. --

TEST(Reference, NamesTheFirstDifferenceInLocalIndices) {
  World world(fusionNamed("columns"));
  world.load(5);
  std::vector<char> data = world.outputOf(0, 2); // the local shape is [4, 2, 1, 3]
  const double expected = get(DType::F16, data, 11);
  put(DType::F16, data, 11, 7);
  put(DType::F16, data, 13, 2000);
  const Status status = world.reference().compare(0, 2, 5, data.data());
  EXPECT_EQ(status.code(), StatusCode::WrongResult);
  EXPECT_EQ(status.message(), "rank 2, iteration 5: %C[1, 1, 0, 2] is 7, expected " +
                                  std::to_string(int(expected)) + " (2 of 24 elements differ)");
}

/// 7 rows on 3 devices form blocks of 3, 3 and 1.
TEST(Reference, LeavesRowsThatDoNotExistAlone) {
  World world(R"(fusion @f(D = 3, M = 7) {
    mesh [0 .. D)
    %A = input f32[DIDx{D}, ceil(M, D), 2]
    %B = input f32[2, 4]
    %C = matmul %A, %B : f32[Stream{D}, ceil(M, D), 4]
    output %C, %A
  })");
  // The first nonexistent row of %C on any rank, and the first one of %A on rank 2.
  const std::vector<int64_t> firstMissing = {7 * 4, 1 * 2};
  for (size_t output = 0; output < 2; ++output) {
    std::vector<char> data = world.outputOf(output, 2);
    const int64_t elements = static_cast<int64_t>(data.size() / 4);
    const Status written = world.reference().compare(output, 2, 0, data.data());
    EXPECT_THAT(written.message(), HasSubstr("expected nan"));
    for (int64_t at = firstMissing[output]; at < elements; ++at)
      put(DType::F32, data, at, std::nan(""));
    EXPECT_TRUE(world.reference().compare(output, 2, 0, data.data()).isOk());
    put(DType::F32, data, firstMissing[output] - 1, std::nan(""));
    EXPECT_FALSE(world.reference().compare(output, 2, 0, data.data()).isOk());
  }
}

/// Returns repeated squares of a matrix, with values up to 1, 12, 1728, 3.6e7 and 1.5e16.
std::string squares(const std::string &dtype, const std::string &outputs) {
  const std::string type = " : " + dtype + "[12, 12]\n";
  return "fusion @f(D = 1) {\n mesh [0 .. D)\n %x = input " + dtype + "[12, 8]\n" +
         " %y = linear %x, %x" + type + " %z = matmul %y, %y" + type + " %u = matmul %z, %z" +
         type + " %v = matmul %u, %u" + type + " %w = matmul %v, %v" + type + " output " + outputs +
         "\n}\n";
}

TEST(Reference, SaysWhatIsNotExactAndWhichTypeWouldDo) {
  const std::string place = "<input>:[0-9]+:[0-9]+: cannot verify ";
  const std::pair<std::string, std::string> cases[] = {
      {R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %P = input bf16[12, 8]
  %Q = input bf16[8, 12]
  %R = input bf16[8, DIDx{D}, 6]
  %y = matmul %P, %Q : bf16[12, 12]
  %s = matmul %P, %R : bf16[12, DIDx{D}, 6]
  %z = matmul %y, %s : bf16[12, DIDx{D}, 6]
  %u = linear %z, %z partial bf16 : bf16[12, 12]
  output %u
})",
       "%u: expected partial results that bf16 can represent exactly, got values up to 1728; f32 "
       "can represent them"},
      {squares("f32", "%v"), "%v: expected values that f32 can represent exactly, got values up to "
                             "35831808; f64 can represent them"}};
  for (const auto &[text, message] : cases) {
    World world(text);
    const std::vector<char> data(world.localBytes(*world.fusion().outputs()[0]));
    const Status status = world.reference().compare(0, 0, 0, data.data());
    EXPECT_EQ(status.code(), StatusCode::Unsupported);
    EXPECT_THAT(status.message(), testing::MatchesRegex(place + message));
  }
}

TEST(Reference, JudgesAGemmAsSecondOperandWhereTheTypeHoldsIt) {
  World world(R"(fusion @f(D = 2) {
    mesh [0 .. D)
    %x = input f64[DIDx{D}, 2, 6]
    %a = input f64[6, 5]
    %b = input f64[5, 4]
    %ab = matmul %a, %b : f64[6, 4]
    %y = matmul %x, %ab : f64[Stream{D}, 2, 4]
    output %y
  })");
  EXPECT_EQ(world.objectingRanks(), std::vector<int64_t>{});
}

TEST(Reference, IsDeterministicInSeedAndIteration) {
  World one(fusionNamed("biased"), 5), two(fusionNamed("biased"), 5),
      other(fusionNamed("biased"), 6);
  for (size_t input = 0; input < 3; ++input) {
    EXPECT_EQ(one.bytesOf(input, 1, 4), two.bytesOf(input, 1, 4));
    EXPECT_NE(one.bytesOf(input, 1, 4), one.bytesOf(input, 1, 5));
  }
  EXPECT_NE(one.bytesOf(0, 1, 4), other.bytesOf(0, 1, 4));
}

TEST(Reference, CountsElementsOfAllOutputs) {
  World world(fusionNamed("shared"));
  EXPECT_EQ(world.reference().elementsOf(0), 6 * 4 + 6 * 6);
}

TEST(Reference, CountsNoElementsOfRowsThatDoNotExist) {
  World world("fusion @f(D = 3, M = 7) {\n mesh [0 .. D)\n"
              " %A = input f32[DIDx{D}, ceil(M, D), 2]\n %B = input f32[2, 5]\n"
              " %C = matmul %A, %B : f32[DIDx{D}, ceil(M, D), 5]\n output %C\n}\n");
  EXPECT_EQ(world.reference().elementsOf(0), 3 * 5);
  EXPECT_EQ(world.reference().elementsOf(1), 3 * 5);
  EXPECT_EQ(world.reference().elementsOf(2), 1 * 5);
}

TEST(Reference, ServesSeveralRanksAtTheSameTime) {
  World world(fusionNamed("shared"));
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  const std::vector<char> expected = world.outputOf(1, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        wrong[t] += !world.reference().compare(1, t % 2, 0, expected.data()).isOk();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

} // namespace
