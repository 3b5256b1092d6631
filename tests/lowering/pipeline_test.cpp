//===- tests/lowering/pipeline_test.cpp - all passes together --------------------------------===//

#include "tests/lowering/support.h"

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>

namespace braid {
namespace {

std::string readExample(const std::string &name) {
  std::ifstream file("examples/" + name);
  EXPECT_TRUE(file) << "run from the repository's root";
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The program that the design fixes for this example.
TEST(Pipeline, LowersTheFirstExampleAsDesigned) {
  Lowered lowered = lowerText(readExample("ag_matmul.braid"));
  EXPECT_EQ(withoutLayout(lowered.text), withoutLayout(R"(
program @ag_matmul_pairwise implements @ag_matmul mesh [0 .. 8)
    (%A: bf16[1, 128, 1024], %B: bf16[1024, 1024]) -> (%C: bf16[8, 128, 1024]) {
  %A_all = allocate symmetric bf16[8, 128, 1024]
  %h     = share_mem_handles get %A_all
  %main  = get_current_stream
  %mine  = select %A_all[rank]                 // an alias, no copy
  %own   = select %A[0]
  set %mine, %own
  for %j in 0 .. 4 {
    set_current_stream stream(%j)
    synchronize %main                          // the current stream waits, not the host
  }
  set_current_stream stream(0)
  %C_own = select %C[rank]
  matmul %C_own, %mine, %B
  for %i in 1 .. 8 {
    set_current_stream stream(%i mod 4)
    %block = select %A_all[(rank + %i) mod 8]
    %s = p2p send %mine  to   (rank - %i) mod 8 via %h
    %r = p2p recv %block from (rank + %i) mod 8 via %h
    wait %r
    %out = select %C[(rank + %i) mod 8]
    matmul %out, %block, %B
    wait %s
  }
  set_current_stream %main
  for %j in 0 .. 4 {
    synchronize stream(%j)
  }
}
)"));
}

TEST(Pipeline, LowersTheLinearExample) {
  Lowered lowered = lowerText(readExample("ag_linear.braid"));
  EXPECT_THAT(lowered.text,
              testing::StartsWith("program @ag_linear_pairwise implements @ag_linear"));
  EXPECT_THAT(lowered.text,
              testing::HasSubstr("    linear %out, %block, %w, %bias\n    wait %s\n"));
}

TEST(Pipeline, LowersShardedColumnsWithoutMovingThem) {
  Lowered lowered = lowerText(readExample("ag_matmul_column.braid"));
  EXPECT_THAT(lowered.text,
              testing::HasSubstr("%B: bf16[1024, 1, 1024]) -> (%C: bf16[8, 128, 1, 1024])"));
  EXPECT_THAT(lowered.text, testing::HasSubstr("share_mem_handles get %A_all\n"));
}

TEST(Pipeline, MovesNothingForTheLocalExample) {
  Lowered lowered = lowerText(readExample("matmul_local.braid"), {.chunks = 8});
  EXPECT_THAT(lowered.text, testing::StartsWith("program @matmul_local_local implements"));
  EXPECT_EQ(lowered.body(), R"(  %main = get_current_stream
  for %j in 0 .. 4 {
    set_current_stream stream(%j)
    synchronize %main
  }
  for %i in 0 .. 4 {
    %block = select %A[%i]
    %out = select %C[%i]
    for %c in 0 .. 2 {
      set_current_stream stream((%i * 2 + %c) mod 4)
      %out_rows = slice %out[%c * 32 .. (%c + 1) * 32]
      %block_rows = slice %block[%c * 32 .. (%c + 1) * 32]
      matmul %out_rows, %block_rows, %B
    }
  }
  set_current_stream %main
  for %j in 0 .. 4 {
    synchronize stream(%j)
  }
)");
}

//===- Everything with everything -------------------------------------------------------------===//

std::string gather(int64_t ranks, int64_t rows, int64_t k, llvm::StringRef op) {
  std::string d = std::to_string(ranks);
  std::string text = "fusion @f(D = " + d + ", R = " + std::to_string(rows) +
                     ", K = " + std::to_string(k) + ") {\n  mesh [0 .. D)\n" +
                     "  %A = input f32[DIDx{D}, R, K]\n";
  if (op == "matmul")
    return text + "  %B = input f32[K, 3]\n  %C = matmul %A, %B : f32[Stream{D}, R, 3]\n"
                  "  output %C\n}\n";
  return text + "  %w = input f32[3, K]\n  %bias = input f32[3]\n"
                "  %C = linear %A, %w, %bias : f32[Stream{D}, R, 3]\n  output %C\n}\n";
}

/// What holds for every program: passes that say "unchanged" are right, lowering is deterministic,
/// and the text can be read back.
void checkLowered(const std::string &text, const LoweringOptions &options) {
  SCOPED_TRACE(text + name(options.schedule).str() + " " + name(options.protocol).str() +
               " K=" + std::to_string(options.streams) + " S=" + std::to_string(options.chunks) +
               " T=" + std::to_string(options.taper) + " R=" + std::to_string(options.waveRows));
  Lowered lowered = lowerText(text, options);
  ASSERT_TRUE(lowered.status.isOk()) << lowered.status.message() << lowered.messages;
  for (size_t i = 1; i < lowered.snapshots.size(); ++i) {
    const Snapshot &now = lowered.snapshots[i];
    EXPECT_EQ(now.changed, now.text != lowered.snapshots[i - 1].text) << now.pass;
  }
  EXPECT_EQ(lowerText(text, options).text, lowered.text);

  Diagnostics diags("printed.braid", text + lowered.text);
  Module module = parse(diags);
  EXPECT_TRUE(!diags.hasErrors() && verify(module, diags)) << diags.str();
  ASSERT_EQ(module.programs.size(), 1u);
  EXPECT_EQ(str(*module.programs[0]), lowered.text);
}

TEST(Pipeline, LowersEveryCombination) {
  for (int64_t ranks : {1, 2, 3, 4, 5, 7, 8})
    for (int64_t rows : {1, 2, 5})
      for (Schedule schedule : allSchedules())
        for (Protocol protocol : {Protocol::Get, Protocol::Put})
          for (int64_t streams : {1, 2, 4})
            for (int64_t chunks : {int64_t(0), ranks, ranks * rows})
              checkLowered(gather(ranks, rows, rows == 5 ? 1 : 4, rows == 2 ? "linear" : "matmul"),
                           {schedule, protocol, streams, chunks});
}

TEST(Pipeline, LowersForManyRanks) {
  for (Schedule schedule : allSchedules())
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      checkLowered(gather(16, 2, 4, "matmul"), {schedule, protocol, /*streams=*/4, /*chunks=*/32});
}

TEST(Pipeline, LowersEveryTaper) {
  for (int64_t ranks : {1, 2, 3, 5, 8})
    for (Schedule schedule : allSchedules())
      for (Protocol protocol : {Protocol::Get, Protocol::Put})
        for (int64_t streams : {1, 2, 4})
          for (int64_t chunks : {int64_t(0), 2 * ranks})
            for (int64_t taper : {2, 4})
              checkLowered(gather(ranks, 13, 4, "matmul"),
                           {schedule, protocol, streams, chunks, taper});
}

TEST(Pipeline, LowersEveryWave) {
  for (int64_t ranks : {1, 2, 3, 4, 6, 8})
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      for (int64_t streams : {1, 3, 4})
        for (int64_t taper : {1, 2})
          for (int64_t waveRows : {1, 5, 9})
            checkLowered(gather(ranks, 13, 4, "matmul"), {.schedule = Schedule::Doubling,
                                                          .protocol = protocol,
                                                          .streams = streams,
                                                          .taper = taper,
                                                          .waveRows = waveRows});
}

/// Where a product takes its blocks anyway, and where nobody cuts products.
TEST(Pipeline, LowersAsWithoutWaves) {
  const std::string text = gather(4, 13, 4, "matmul");
  for (Schedule schedule : allSchedules())
    EXPECT_EQ(lowerText(text, {.schedule = schedule, .waveRows = 14}).text,
              lowerText(text, {.schedule = schedule}).text);
  EXPECT_EQ(lowerText(text, {.waveRows = 5}).text, lowerText(text, {}).text);
}

TEST(Pipeline, TakesBlocksOfAnyRank) {
  for (Schedule schedule : allSchedules()) {
    checkLowered("fusion @vector(D = 4) {\n  mesh [0 .. D)\n  %A = input f64[DIDx{D}, 6]\n"
                 "  %B = input f64[6, 5]\n  %C = matmul %A, %B : f64[Stream{D}, 5]\n"
                 "  output %C\n}\n",
                 {.schedule = schedule});
    checkLowered("fusion @batch(D = 4) {\n  mesh [0 .. D)\n  %A = input f16[DIDx{D}, 6, 2, 3]\n"
                 "  %B = input f16[3, 5]\n  %C = matmul %A, %B : f16[Stream{D}, 6, 2, 5]\n"
                 "  output %C\n}\n",
                 {.schedule = schedule, .chunks = 16});
  }
}

TEST(Pipeline, LowersManyUnevenChunksFast) {
  Diagnostics diags("test.braid", gather(8, 1000, 16, "matmul"));
  Module module = parse(diags);
  auto best = std::chrono::steady_clock::duration::max();
  std::string text;
  for (int attempt = 0; attempt < 5; ++attempt) {
    auto begin = std::chrono::steady_clock::now();
    auto program = lower(module, *module.fusions[0], {.chunks = 512}, diags);
    best = std::min(best, std::chrono::steady_clock::now() - begin);
    ASSERT_TRUE(program.isOk()) << diags.str();
    text = str(**program);
  }
  EXPECT_THAT(text, testing::HasSubstr("[%c * 1000 / 64 .. (%c + 1) * 1000 / 64]"));
  EXPECT_LT(text.size(), 2000u) << "the text must not grow with the chunks";
  EXPECT_LT(best, std::chrono::milliseconds(100));
}

//===- What the caller can get wrong ----------------------------------------------------------===//

TEST(Pipeline, RefusesOptionsThatMeanNothing) {
  Lowered lowered = lowerText(gather(2, 2, 2, "matmul"), {.streams = 0});
  EXPECT_EQ(lowered.status.code(), StatusCode::BadInput);
  EXPECT_EQ(lowered.status.message(), "expected 1 or more streams, got 0");
  lowered = lowerText(gather(2, 2, 2, "matmul"), {.chunks = -1});
  EXPECT_EQ(lowered.status.code(), StatusCode::BadInput);
  EXPECT_EQ(lowered.status.message(), "expected 0 or more chunks, got -1");
  lowered = lowerText(gather(2, 2, 2, "matmul"), {.taper = 0});
  EXPECT_EQ(lowered.status.code(), StatusCode::BadInput);
  EXPECT_EQ(lowered.status.message(), "expected a taper of 1 or more, got 0");
  lowered = lowerText(gather(2, 2, 2, "matmul"), {.waveRows = -1});
  EXPECT_EQ(lowered.status.code(), StatusCode::BadInput);
  EXPECT_EQ(lowered.status.message(), "expected 0 or more rows a wave, got -1");
}

// A verifier that finds fault with what a pass made: here, because the fusion is not in the module.
TEST(Pipeline, BlamesThePassForAnInvalidProgram) {
  Diagnostics diags("test.braid", gather(2, 2, 2, "matmul"));
  Module module = parse(diags);
  auto result = lower(Module(), *module.fusions[0], LoweringOptions(), diags);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.status().code(), StatusCode::Internal);
  EXPECT_THAT(result.status().message(),
              testing::StartsWith("pass 'find-moves' made an invalid program:\n"));
}

TEST(Options, HaveNames) {
  for (Schedule schedule : allSchedules())
    EXPECT_EQ(scheduleFromName(name(schedule)), schedule);
  EXPECT_EQ(scheduleFromName("ring"), std::nullopt);
}

void expectToGoOn(const std::string &text, const LoweringOptions &options) {
  const Lowered lowered = lowerText(text, options);
  for (const Snapshot &snapshot : lowered.snapshots)
    EXPECT_EQ(continueLowering(text, snapshot, options), lowered.text) << snapshot.labelled;
}

// Everything that a pass has to know from an earlier one stands in the program.
TEST(Pipeline, GoesOnWithWhatWasPrintedAfterAnyPass) {
  for (const char *name :
       {"ag_matmul.braid", "ag_linear.braid", "ag_matmul_column.braid", "matmul_local.braid"})
    for (Schedule schedule : allSchedules())
      for (Protocol protocol : {Protocol::Get, Protocol::Put})
        for (auto [chunks, taper, transfers] : {std::tuple(int64_t(0), int64_t(1), Transfers::Each),
                                                {16, 1, Transfers::Each},
                                                {16, 2, Transfers::Shared}})
          for (int64_t waveRows : {0, 192})
            expectToGoOn(readExample(name), {.schedule = schedule,
                                             .protocol = protocol,
                                             .chunks = chunks,
                                             .taper = taper,
                                             .waveRows = waveRows,
                                             .transfers = transfers});
}

} // namespace
} // namespace braid
