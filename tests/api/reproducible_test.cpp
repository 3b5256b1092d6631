//===- tests/api/reproducible_test.cpp - equal bits for every schedule and size ---------------===//

#include "api/ranks/arguments.h"
#include "tests/support/configured.h"
#include "tests/support/local_mesh.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>

namespace braid {
namespace {

constexpr int64_t kRanks = 3, kK = 40, kN = 24;

/// M need not be divisible by the number of ranks.
std::string gather(int64_t m) {
  return fmt::format("fusion @f(D = {0}) {{\n  mesh [0 .. D)\n"
                     "  %A = input f32[DIDx{{D}}, ceil({1}, D), {2}]\n"
                     "  %B = input f32[{2}, {3}]\n"
                     "  %C = matmul %A, %B : f32[Stream{{D}}, ceil({1}, D), {3}]\n"
                     "  output %C\n}}\n",
                     kRanks, m, kK, kN);
}
std::string allReduce(int64_t m) {
  return fmt::format("fusion @f(D = {0}) {{\n  mesh [0 .. D)\n"
                     "  %A = input bf16[{1}, DIDx{{D}}, {2}]\n"
                     "  %B = input bf16[DIDx{{D}}, {2}, {3}]\n"
                     "  %C = matmul %A, %B partial f32 : bf16[{1}, {3}]\n"
                     "  output %C\n}}\n",
                     kRanks, m, kK, kN);
}

/// Returns every preset with 1 and 3 chunks and with get and put, and put with partial results that
/// are stored at the peer. Lowering rejects some of them.
std::vector<CompileOptions> allWays() {
  std::vector<CompileOptions> ways;
  for (const Preset &preset : test::pairPresets())
    for (int64_t chunks : {1, 3})
      for (Protocol protocol : {Protocol::Get, Protocol::Put}) {
        CompileOptions options{.reproducible = true};
        options.schedule.all = preset.fields;
        options.schedule.all.set(Knob::Chunks, chunks).set(Knob::Protocol, protocol);
        ways.push_back(options);
      }
  for (int64_t chunks : {1, 3})
    for (auto shots : {schedule::Reduction::OneShot, schedule::Reduction::TwoShot}) {
      CompileOptions options{.reproducible = true};
      options.schedule.all.set(Knob::Partials, schedule::Partials::Peer)
          .set(Knob::Protocol, Protocol::Put)
          .set(Knob::Reduction, shots)
          .set(Knob::Chunks, chunks);
      ways.push_back(options);
    }
  return ways;
}

const Backend &cpu() {
  static const BackendRegistry registry = builtinBackends();
  return *registry.find("cpu");
}

/// Returns the result of every rank, or an empty vector if lowering rejects the options. Row i of
/// the input does not depend on M.
std::vector<std::string> resultsOf(const std::string &text, const CompileOptions &options,
                                   int64_t rowBytes) {
  std::vector<std::string> results;
  auto source = parseSource("t.braid", text);
  Result<Compiled> compiled = compile(*source, options);
  if (!compiled)
    return results;
  auto mesh = LocalMesh::create(cpu(), {.ranks = kRanks, .reproducible = true});
  EXPECT_TRUE((*mesh)->prepare(*compiled).isOk());
  std::vector<Arguments> all;
  std::vector<RunArguments> addresses;
  const TensorType &a = compiled->program->params()[0]->type;
  const int64_t aBytes = kK * sizeOf(a.dtype);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const Plan &plan = (*mesh)->plan(rank);
    all.push_back(std::move(*Arguments::allocate(plan, (*mesh)->device(rank))));
    const int64_t rows = plan.buffers[plan.inputs[0]].bytes / aBytes;
    // In a gather, each rank's input contains a block of rows; otherwise, it contains some columns
    // of every row.
    const bool hasBlock = compiled->fusion->inputs()[0]->type.axes[0].kind == AxisKind::DIDx;
    for (int64_t row = 0; row < rows; ++row)
      drawNumbers(a.dtype, static_cast<char *>(all.back().input(0)) + row * aBytes, kK,
                  static_cast<uint64_t>(hasBlock ? rank * rows + row : row * kRanks + rank));
    drawNumbers(a.dtype, all.back().input(1), kK * kN,
                static_cast<uint64_t>(hasBlock ? 1000000 : 1000000 + rank));
    addresses.push_back(all.back().addresses());
  }
  (*mesh)->run(addresses);
  EXPECT_TRUE((*mesh)->synchronize().isOk());
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const Plan &plan = (*mesh)->plan(rank);
    const auto bytes = static_cast<size_t>(plan.buffers[plan.outputs[0]].bytes);
    results.emplace_back(static_cast<const char *>(all[static_cast<size_t>(rank)].output(0)),
                         bytes / static_cast<size_t>(rowBytes) * static_cast<size_t>(rowBytes));
  }
  return results;
}

struct Rows {
  const char *name;
  std::string (*text)(int64_t m);
  int64_t bytes; ///< size of one row of the result
};

TEST(Reproducible, WhateverMIs) {
  for (const Rows &rows : {Rows{"gather", gather, kN * 4}, {"all-reduce", allReduce, kN * 2}}) {
    const std::vector<std::string> whole =
        resultsOf(rows.text(4096), {.reproducible = true}, rows.bytes);
    ASSERT_FALSE(whole.empty());
    const std::string &expected = whole.front();
    size_t results = 0;
    for (int64_t m : {1, 17, 256, 4096})
      for (const CompileOptions &way : allWays())
        for (const std::string &result : resultsOf(rows.text(m), way, rows.bytes)) {
          ++results;
          const auto existing = static_cast<size_t>(m * rows.bytes);
          ASSERT_GE(result.size(), existing);
          ASSERT_EQ(std::memcmp(result.data(), expected.data(), existing), 0)
              << rows.name << " of " << m << " rows, " << way.schedule.str();
        }
    EXPECT_GE(results, 30u * kRanks) << rows.name;
  }
}

TEST(Reproducible, InputsHaveAllDigits) {
  std::vector<float> numbers(1000);
  drawNumbers(DType::F32, numbers.data(), 1000, 1);
  size_t odd = 0; // numbers whose last bit is set
  for (float number : numbers) {
    EXPECT_LE(std::abs(number), 1);
    odd += std::bit_cast<uint32_t>(number) & 1;
  }
  EXPECT_GT(odd, 400u);
  EXPECT_LT(odd, 600u);
}

/// According to the fusion, every rank has the whole output, but the program fills only one row.
TEST(Reproducible, WhatEveryRankHasHasToBeTheSame) {
  auto source = parseSource("t.braid", R"(
fusion @whole(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 4]
  %C = reshard %A : f32[D, 4]
  output %C
}
program @one_row implements @whole mesh [0 .. 2) (%A: f32[1, 4]) -> (%C: f32[2, 4]) {
  %own = select %C[rank]
  %a = select %A[0]
  set %own, %a
}
)");
  const Result<Compiled> compiled = compile(*source, {.reproducible = true});
  ASSERT_TRUE(compiled.isOk()) << source->diags.str() << compiled.status().message();
  const Status status = run(*compiled, cpu(), {}).status();
  EXPECT_EQ(status.code(), StatusCode::WrongResult);
  EXPECT_NE(status.message().find("%C: expected the same bits on every rank, but rank 1"),
            std::string::npos)
      << status.message();
}

} // namespace
} // namespace braid
