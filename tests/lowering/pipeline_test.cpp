//===- tests/lowering/pipeline_test.cpp - all passes together ---------------------------------===//

#include "tests/lowering/support.h"
#include "tests/support/case_file.h"
#include "tests/support/configured.h"
#include "tests/support/examples.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

using test::readExample;

std::string named(const char *name) {
  return test::fusionNamed("tests/lowering/inputs/pipeline.braid", name);
}

// The program that the design prescribes for this example.
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
  Lowered lowered = lowerText(readExample("matmul_local.braid"), "chunks=2");
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

//===- All combinations -----------------------------------------------------------------------===//

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

std::string textOf(const Preset &preset, Protocol protocol, int64_t streams, int64_t chunks) {
  return preset.name.str() + ";protocol=" + name(protocol).str() +
         ";streams=" + std::to_string(streams) + ";chunks=" + std::to_string(chunks);
}

/// Checks properties of every program: a pass that reports no change has made none, lowering is
/// deterministic, and the text can be parsed again.
void checkLowered(const std::string &text, const std::string &options) {
  SCOPED_TRACE(text + options);
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
      for (const Preset &preset : test::pairPresets())
        for (Protocol protocol : {Protocol::Get, Protocol::Put})
          for (int64_t streams : {1, 2, 4})
            for (int64_t chunks : {int64_t(1), rows})
              checkLowered(gather(ranks, rows, rows == 5 ? 1 : 4, rows == 2 ? "linear" : "matmul"),
                           textOf(preset, protocol, streams, chunks));
}

TEST(Pipeline, LowersForManyRanks) {
  for (const Preset &preset : test::pairPresets())
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      checkLowered(gather(16, 2, 4, "matmul"),
                   textOf(preset, protocol, /*streams=*/4, /*chunks=*/2));
}

TEST(Pipeline, LowersEveryTaper) {
  for (int64_t ranks : {1, 2, 3, 5, 8})
    for (const Preset &preset : test::pairPresets())
      for (Protocol protocol : {Protocol::Get, Protocol::Put})
        for (int64_t streams : {1, 2, 4})
          for (int64_t chunks : {1, 2})
            for (int64_t split : {2, 4})
              checkLowered(gather(ranks, 13, 4, "matmul"),
                           textOf(preset, protocol, streams, chunks) +
                               ";tail-split=" + std::to_string(split));
}

TEST(Pipeline, TakesBlocksOfAnyRank) {
  for (const Preset &preset : test::pairPresets()) {
    checkLowered("fusion @vector(D = 4) {\n  mesh [0 .. D)\n  %A = input f64[DIDx{D}, 6]\n"
                 "  %B = input f64[6, 5]\n  %C = matmul %A, %B : f64[Stream{D}, 5]\n"
                 "  output %C\n}\n",
                 preset.name.str());
    checkLowered("fusion @batch(D = 4) {\n  mesh [0 .. D)\n  %A = input f16[DIDx{D}, 6, 2, 3]\n"
                 "  %B = input f16[3, 5]\n  %C = matmul %A, %B : f16[Stream{D}, 6, 2, 5]\n"
                 "  output %C\n}\n",
                 preset.name.str() + ";chunks=4");
  }
}

TEST(Pipeline, TextDoesNotGrowWithUnevenChunks) {
  Diagnostics diags("test.braid", gather(8, 1000, 16, "matmul"));
  Module module = parse(diags);
  auto program = lower(module, *module.fusions[0], {Configuration().set(Knob::Chunks, 64)}, diags);
  ASSERT_TRUE(program.isOk()) << diags.str();
  const std::string text = str(**program);
  EXPECT_THAT(text, testing::HasSubstr("[%c * 1000 / 64 .. (%c + 1) * 1000 / 64]"));
  EXPECT_LT(text.size(), 2000u);
}

//===- Errors of the caller -------------------------------------------------------------------===//

TEST(Pipeline, RefusesOptionsThatMeanNothing) {
  auto messageFor = [](Knob knob, int64_t value) {
    Lowered lowered =
        lowerText(gather(2, 2, 2, "matmul"), Configurations{Configuration().set(knob, value)});
    EXPECT_EQ(lowered.status.code(), StatusCode::BadInput);
    return lowered.status.message();
  };
  EXPECT_EQ(messageFor(Knob::Streams, 0),
            "expected streams to be an integer from 1 to 1024, got 0");
  EXPECT_EQ(messageFor(Knob::Streams, 1025),
            "expected streams to be an integer from 1 to 1024, got 1025");
  EXPECT_EQ(messageFor(Knob::Protocol, 2), "expected protocol to be one of get, put, got 2");
}

// Verification fails after the first pass, because the fusion is not in the module.
TEST(Pipeline, BlamesThePassForAnInvalidProgram) {
  Diagnostics diags("test.braid", gather(2, 2, 2, "matmul"));
  Module module = parse(diags);
  auto result = lower(Module(), *module.fusions[0], Configurations(), diags);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.status().code(), StatusCode::Internal);
  EXPECT_THAT(result.status().message(),
              testing::StartsWith("pass 'find-moves' produced an invalid program:\n"));
}

//===- Stages with separate schedules ---------------------------------------------------------===//

TEST(Stages, HaveSchedulesOfTheirOwn) {
  for (const Preset &first : test::pairPresets())
    for (const Preset &second : test::pairPresets())
      for (const char *knobs : {"", ";protocol=put;chunks=2", ";streams=2;tail-split=2"})
        checkLowered(named("mixed"), "C=" + first.name.str() + ",Y=" + second.name.str() + knobs);
}

TEST(Stages, ShareHandlesThatHaveOneProtocol) {
  EXPECT_EQ(lowerText(named("mixed"), "C=ring,Y=ring").text,
            lowerText(named("mixed"), "ring").text);
  EXPECT_EQ(lowerText(named("mixed"), "C=ring").text,
            lowerText(named("mixed"), "pairwise,C=ring").text);
  const std::string mixed = lowerText(named("mixed"), "ring,Y=pairwise;protocol=put").text;
  EXPECT_THAT(mixed, testing::HasSubstr("@mixed_mixed "));
  EXPECT_THAT(mixed, testing::HasSubstr("%h = share_mem_handles get %A_all\n"));
  EXPECT_THAT(mixed, testing::HasSubstr("%h_2 = share_mem_handles put %X_all\n"));
}

void expectLowered(const std::string &text, const std::string &schedule) {
  const Lowered lowered = lowerText(text, schedule);
  EXPECT_TRUE(lowered.status.isOk()) << schedule << lowered.messages;
}

TEST(Pipeline, IsSafeAfterEveryPass) {
  for (const char *name :
       {"ag_matmul.braid", "ag_linear.braid", "ag_matmul_column.braid", "matmul_local.braid"})
    for (const Preset &preset : test::pairPresets())
      for (const char *protocol : {"", ";protocol=put"})
        for (const char *cut : {"", ";chunks=2", ";chunks=2;tail-split=2"})
          expectLowered(readExample(name), preset.name.str() + protocol + cut);
  expectLowered(readExample("ag_matmul_collective.braid"), "collective;streams=3");
  expectLowered(readExample("ag_matmul.braid"), "collective");
  for (const char *name : {"matmul_reduce_scatter.braid", "matmul_all_reduce.braid"})
    for (const char *cut : {"", ";chunks=4"})
      expectLowered(readExample(name), std::string("collective") + cut);
  for (const char *schedule : {"pairwise;placement=shared;chunks=2", "pairwise;streams=1",
                               "ring;streams=1", "coalesced;streams=2"})
    expectLowered(readExample("ag_matmul.braid"), schedule);
  expectLowered(named("mixed"), "ring,Y=pairwise;protocol=put");
}

/// Returns the example with its eight ranks on two hosts.
std::string onTwoHosts(const char *name) {
  std::string text = readExample(name);
  const std::string mesh = "mesh [0 .. D)";
  return text.replace(text.find(mesh), mesh.size(), mesh + " of 4");
}

TEST(Pipeline, IsSafeOnHostsAfterEveryPass) {
  for (const char *protocol : {"", ";protocol=put"})
    for (const char *placement : {"", ";placement=shared;streams=7"}) {
      for (const char *cut : {"", ";chunks=2;tail-split=2"})
        for (const char *name : {"ag_matmul.braid", "ag_linear.braid", "ag_reshard.braid",
                                 "matmul_reduce_scatter.braid"})
          expectLowered(onTwoHosts(name), std::string("hierarchical") + protocol + placement + cut);
      expectLowered(onTwoHosts("matmul_all_reduce.braid"),
                    std::string("hierarchical;reduction=two-shot") + protocol + placement);
      expectLowered(onTwoHosts("mlp.braid"), std::string("hierarchical") + protocol + placement);
    }
  expectLowered(onTwoHosts("ag_matmul.braid"), "hierarchical;granularity=whole");
  expectLowered(onTwoHosts("matmul_reduce_scatter.braid"),
                "hierarchical;protocol=put;partials=peer");
}

TEST(Pipeline, IsSafeWithFunctionsAndReshards) {
  for (const char *name : {"mlp.braid", "gated_mlp.braid", "ag_reshard.braid"})
    for (const char *preset : {"pairwise", "pairwise;placement=shared", "sequential", "bulk"})
      for (const char *protocol : {"", ";protocol=put"})
        expectLowered(readExample(name), std::string(preset) + protocol);
  for (const char *schedule : {"U=stepwise=first", "U=ring;stepwise=first;protocol=put"})
    expectLowered(readExample("gated_mlp.braid"), schedule);
  for (const char *schedule : {"H=ring;chunks=2", "H=coalesced;tail-split=2", "H=batched"})
    expectLowered(readExample("mlp.braid"), schedule);
  for (const char *schedule : {"ring;chunks=2", "coalesced", "batched"})
    expectLowered(readExample("ag_reshard.braid"), schedule);
}

//===- Results without a Stream axis ----------------------------------------------------------===//

/// Returns fusions whose results have no Stream axis, including one with a replicated operand.
std::vector<std::string> wholeFusions() {
  return {named("whole_gathered"), named("whole_beside"), named("whole_vector"), named("whole_own"),
          named("whole_fewer")};
}

TEST(Whole, IsLowered) {
  for (const std::string &text : wholeFusions())
    for (const char *schedule : {"pairwise", "sequential", "bulk", "streams=1"})
      for (const char *protocol : {"", ";protocol=put"})
        checkLowered(text, std::string(schedule) + protocol);
  checkLowered(named("whole_gathered"), "chunks=2;protocol=put");
}

TEST(Whole, IsSafeAfterEveryPass) {
  for (const std::string &text : wholeFusions())
    for (const char *schedule : {"pairwise", "bulk;protocol=put"})
      expectLowered(text, schedule);
}

// Other results of the same operand are computed together with the result that has a Stream axis.
TEST(Whole, IsOverlappedBesideASlicedResult) {
  const std::string body = lowerText(named("whole_beside")).body();
  EXPECT_THAT(body, testing::HasSubstr("    matmul %C_out, %block, %B\n"));
  EXPECT_THAT(body, testing::HasSubstr("    matmul %E_out, %block, %B\n"));
}

TEST(Whole, HasNoSchedulesOfSlices) {
  for (const char *schedule : {"ring", "coalesced", "batched", "pairwise;placement=shared"}) {
    const Lowered lowered = lowerText(named("whole_gathered"), schedule);
    EXPECT_EQ(lowered.status.code(), StatusCode::BadInput) << schedule;
    EXPECT_THAT(lowered.messages, testing::HasSubstr("cannot gather %A")) << schedule;
  }
}

//===- Reductions -----------------------------------------------------------------------------===//

/// Returns a reduction to a tensor of type bf16`result` with `ranks` * `rows` rows. `rest` is the
/// GEMM.
std::string reduction(int64_t ranks, int64_t rows, const std::string &result,
                      const std::string &rest = "matmul %A, %B") {
  const std::string a = result.find("[M") != std::string::npos ? "[M" : "[D, M/D";
  const bool isLinear = rest.find("linear") != std::string::npos;
  return "fusion @r(D = " + std::to_string(ranks) + ", M = " + std::to_string(ranks * rows) +
         ") {\n  mesh [0 .. D)\n  %A = input bf16" + a + ", DIDx{D}, 3]\n  %B = input bf16" +
         (isLinear ? "[4, DIDx{D}, 3]" : "[DIDx{D}, 3, 4]") +
         "\n  %bias = input bf16[4]\n  %C = " + rest + " : bf16" + result + "\n  output %C\n}\n";
}

const char *const kReduced[] = {"[DIDx{D}, M/D, 4]", "[M, 4]", "[D, M/D, 4]",
                                "[Stream{D}, M/D, 4]"};
const char *const kReductions[] = {"pairwise",
                                   "pairwise;placement=shared",
                                   "pairwise;chunks=2",
                                   "pairwise;placement=shared;chunks=3",
                                   "pairwise;tail-split=3",
                                   "sequential",
                                   "bulk"};

/// Returns the schedules that are possible for a reduction to this type of result.
std::vector<std::string> reductionsTo(llvm::StringRef result) {
  const bool isScattered = result.contains("DIDx");
  std::vector<std::string> all(std::begin(kReductions), std::end(kReductions));
  for (const char *ring : {"ring", "ring;chunks=3", "ring;chunks=1;tail-split=2"})
    if (isScattered)
      all.push_back(ring);
  for (const char *shots : kReductions)
    if (!isScattered)
      all.push_back(std::string(shots) + ";reduction=two-shot");
  return all;
}

// Checks every schedule and protocol for every type of result, with varying GEMMs and numbers of
// streams.
TEST(Reductions, LowerEveryCombination) {
  const char *const kGemms[] = {"matmul %A, %B", "matmul %A, %B partial f32",
                                "linear %A, %B, %bias"};
  int turn = 0;
  for (int64_t ranks : {2, 3, 3, 8})
    for (const char *result : kReduced)
      for (const std::string &schedule : reductionsTo(result))
        for (const char *protocol : {"", ";protocol=put"}) {
          checkLowered(reduction(ranks, 3, result, kGemms[turn % 3]),
                       schedule + protocol + ";streams=" + std::to_string(1 + turn % 7));
          ++turn;
        }
}

/// Checks that in a ring reduction, GEMMs add the partial results, and that there is no `sum` node.
/// `turn` determines the number of streams, from 1 to 9.
void checkAddsInGemms(const std::string &text, const std::string &knobs, int turn) {
  const std::string all = "ring" + knobs + ";streams=" + std::to_string(1 + turn % 9);
  checkLowered(text, all);
  const std::string program = lowerText(text, all).text;
  EXPECT_THAT(program, testing::HasSubstr(" add %come"));
  EXPECT_THAT(program, testing::Not(testing::HasSubstr("  sum ")));
}

TEST(Reductions, AddInGemms) {
  int turn = 0;
  for (int64_t ranks : {2, 3, 8})
    for (const char *gemm : {"matmul %A, %B", "linear %A, %B"})
      for (const char *cut : {"", ";chunks=3", ";chunks=2;tail-split=2"})
        for (const std::string protocol : {"", ";protocol=put"}) {
          checkAddsInGemms(reduction(ranks, 4, kReduced[0], gemm), cut + protocol, turn);
          checkAddsInGemms(reduction(ranks, 4, kReduced[1 + turn % 3], gemm),
                           ";reduction=two-shot" + (cut + protocol), turn);
          ++turn;
        }
}

/// Schedules in which GEMMs store partial sums for peers in the peers' memory, and this rank's
/// partial sum locally.
const char *const kAtPeers[] = {"partials=peer;protocol=put", "partials=peer;protocol=put;chunks=2",
                                "partials=peer;protocol=put;chunks=2;tail-split=2"};

TEST(Reductions, StoreAtPeers) {
  int turn = 0;
  for (int64_t ranks : {2, 3})
    for (const char *result : kReduced)
      for (const char *schedule : kAtPeers)
        for (const char *gemm : {"matmul %A, %B", "linear %A, %B, %bias partial f32"}) {
          const bool isScattered = llvm::StringRef(result).contains("DIDx");
          const std::string knobs = std::string(schedule) +
                                    (isScattered ? "" : ";reduction=two-shot") +
                                    ";streams=" + std::to_string(1 + turn++ % 7);
          const std::string text = reduction(ranks, 4, result, gemm);
          checkLowered(text, knobs);
          const std::string program = lowerText(text, knobs).text;
          EXPECT_THAT(program, testing::HasSubstr(gemm[0] == 'm' ? "p2p send matmul %block"
                                                                 : "p2p send linear %block"));
          EXPECT_THAT(program, testing::Not(testing::HasSubstr("C_sent")));
        }
  EXPECT_EQ(lowerText(reduction(1, 4, kReduced[0]), kAtPeers[0]).text,
            lowerText(reduction(1, 4, kReduced[0])).text);
}

/// Returns all-reduces whose rows do not divide evenly among the ranks.
std::vector<std::string> sharedFusions() {
  return {named("shared_1"), named("shared_2"), named("shared_3"), named("shared_4"),
          named("shared_5")};
}

TEST(Reductions, ShareRowsThatDoNotDivide) {
  for (const std::string &text : sharedFusions())
    for (const char *schedule : {"pairwise", "pairwise;placement=shared", "sequential", "bulk"})
      for (const char *knobs : {"", ";protocol=put", ";streams=6", ";streams=1;protocol=put"})
        checkLowered(text, std::string(schedule) + ";reduction=two-shot" + knobs);
  for (const std::string &text : sharedFusions())
    for (const char *knobs : {"", ";streams=1", ";streams=6"})
      checkLowered(text, std::string(kAtPeers[0]) + ";reduction=two-shot" + knobs);
  for (const char *schedule : kAtPeers)
    checkLowered(named("shared_1"), std::string(schedule) + ";reduction=two-shot");
  for (const char *cut : {"chunks=2", "chunks=4", "chunks=2;tail-split=2"})
    checkLowered(named("shared_1"),
                 std::string(cut) + ";reduction=two-shot;protocol=put;streams=5");
}

/// A rank adds partial results in rank order; around a ring, the order differs between ranks.
TEST(Reductions, AddInTheOrderOfRanksButForARing) {
  auto check = [](const std::string &result, const std::string &schedule) {
    return orderOfAdditions(reduction(3, 4, result, "linear %A, %B, %bias"), schedule);
  };
  for (const char *result : kReduced)
    for (const std::string &schedule : reductionsTo(result)) {
      const bool isRing = std::string_view(schedule).starts_with("ring");
      EXPECT_EQ(isRing, check(result, schedule) != "") << result << schedule;
    }
  EXPECT_THAT(check(kReduced[0], "ring"), testing::HasSubstr("differs from its definition"));
}

TEST(Reductions, AreNoneOnOneRank) {
  for (const char *result : kReduced)
    for (const char *gemm : {"matmul %A, %B partial f32", "linear %A, %B, %bias"})
      checkLowered(reduction(1, 3, result, gemm), "");
}

TEST(Reductions, AreSafeAfterEveryPass) {
  for (const char *result : kReduced)
    for (const std::string &schedule : reductionsTo(result))
      for (const char *knobs : {";streams=2", ";protocol=put;streams=5"})
        expectLowered(reduction(3, 6, result), schedule + knobs);
  for (const std::string &text : sharedFusions())
    for (const char *schedule : {"pairwise", "sequential", "bulk", kAtPeers[0]})
      expectLowered(text, std::string(schedule) + ";reduction=two-shot");
  for (const char *schedule : kAtPeers)
    expectLowered(reduction(3, 6, kReduced[0]), schedule);
  for (const char *knobs :
       {";streams=2", ";protocol=put;streams=5;chunks=2", ";protocol=put;partials=peer;streams=1"})
    for (int64_t ranks : {2, 3})
      expectLowered(reduction(ranks, 6, kReduced[0]), std::string("ring") + knobs);
  for (const char *knobs : {";streams=2", ";protocol=put;streams=7;chunks=2",
                            ";protocol=put;partials=peer;streams=7;chunks=2"})
    expectLowered(reduction(3, 6, kReduced[1]), std::string("ring;reduction=two-shot") + knobs);
  expectLowered(reduction(3, 6, kReduced[1]), "bulk;protocol=put");
}

// A knob that is set for all stages applies only to those that support it.
TEST(Reductions, HaveTwoShotsBesideAGather) {
  const std::string text = named("mlp_all");
  checkLowered(text, "reduction=two-shot;chunks=2;protocol=put");
  EXPECT_EQ(lowerText(text, "reduction=two-shot").text,
            lowerText(text, "Y=pairwise;reduction=two-shot").text);
  EXPECT_THAT(lowerText(text, "H=pairwise;reduction=two-shot").messages,
              testing::HasSubstr("cannot gather %X: reduction=two-shot requires an all-reduce"));
  const std::string atPeers = std::string(kAtPeers[1]) + ";reduction=two-shot";
  checkLowered(text, atPeers);
  EXPECT_THAT(lowerText(text, atPeers).text, testing::HasSubstr("p2p send matmul %block"));
  EXPECT_THAT(
      lowerText(text, "H=pairwise;protocol=put;partials=peer").messages,
      testing::HasSubstr("cannot gather %X: partials=peer requires a reduction; use local"));
}

// The stages of a layer may have separate schedules.
TEST(Reductions, FollowGathers) {
  const std::string text = named("mlp_scatter");
  for (const Preset &preset : test::pairPresets())
    for (const char *schedule : kReductions)
      for (const char *knobs : {"", ";protocol=put"})
        checkLowered(text, "H=" + preset.name.str() + knobs + ",Y=" + schedule + knobs);
  expectLowered(text, "H=ring,Y=pairwise;chunks=2;protocol=put");
}

} // namespace
} // namespace braid
