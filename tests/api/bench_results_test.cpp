//===- tests/api/bench_results_test.cpp - what follows from times -----------------------------===//

#include "api/bench/bench_results.h"

#include "api/bench/gather_bench.h"
#include "api/bench/reduction_bench.h"
#include "api/compile/plans.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

constexpr BenchShape kShape{64, 32, 16};

BenchRow row(const std::string &name, double us, bool isGraphed = false) {
  return {kShape, name, isGraphed, {{us}}, "", "", "", gatherMatmul().kindOf(name)};
}

/// Rows, and what they say together.
struct Shape {
  std::vector<BenchRow> rows;
  ShapeSummary summary() const { return ShapeSummary::of(rowsOfShape(rows, kShape)); }
};

TEST(BenchResults, TakeTheMedianOfTheMediansOfRounds) {
  BenchRow disturbed{kShape, "ring", false, {{10, 11, 12}, {90, 90, 90}, {11, 12, 13}}};
  EXPECT_EQ(disturbed.time(), 12);
  EXPECT_THAT(disturbed.medians(), ElementsAre(11, 90, 12));
  EXPECT_EQ(disturbed.spread().high, 90);
  EXPECT_EQ(BenchRow().time(), 0);
  const BenchRow twice{kShape, "ring", false, {{10, 12}, {20, 22}}};
  EXPECT_THAT(twice.medians(), ElementsAre(11, 21));
  EXPECT_EQ(twice.time(), 16);
}

TEST(Operations, KnowTheirRowsByName) {
  const Operation gather = gatherMatmul();
  EXPECT_EQ(gather.kindOf("matmul"), RowKind::Gemm);
  EXPECT_EQ(gather.kindOf("torch/matmul"), RowKind::Gemm);
  EXPECT_EQ(gather.kindOf("chunked;chunks=2"), RowKind::ChunkedGemm);
  EXPECT_FALSE(row("chunked", 1).doesAllWork());
  EXPECT_EQ(gather.kindOf("uncoupled;protocol=put"), RowKind::Uncoupled);
  EXPECT_FALSE(row("uncoupled", 1).doesAllWork());
  EXPECT_EQ(gather.kindOf("gather;protocol=put"), RowKind::Transfers);
  EXPECT_EQ(gather.kindOf("torch/gather_copy"), RowKind::Transfers);
  EXPECT_EQ(gather.kindOf("sequential;chunks=2"), RowKind::Sequential);
  EXPECT_EQ(gather.kindOf("torch/sequential"), RowKind::Sequential);
  EXPECT_EQ(gather.kindOf("auto"), RowKind::Overlapped);
  EXPECT_EQ(gather.kindOf("pairwise;streams=2"), RowKind::Overlapped);
  EXPECT_EQ(gather.kindOf("torch/fused"), RowKind::Overlapped);
}

TEST(Operations, KnowTheRowsOfReductions) {
  const Operation scatter = matmulReduceScatter(), reduce = matmulAllReduce();
  for (const Operation *operation : {&scatter, &reduce}) {
    EXPECT_EQ(operation->kindOf("gemm"), RowKind::Gemm);
    EXPECT_EQ(operation->kindOf("torch/gemm"), RowKind::Gemm);
    EXPECT_EQ(operation->kindOf("chunked;chunks=2"), RowKind::ChunkedGemm);
    EXPECT_EQ(operation->kindOf("uncoupled"), RowKind::Uncoupled);
    EXPECT_EQ(operation->kindOf("torch/sequential"), RowKind::Sequential);
    EXPECT_EQ(operation->kindOf("auto"), RowKind::Overlapped);
    EXPECT_TRUE(operation->hasPartials);
  }
  EXPECT_EQ(scatter.kindOf("scatter;protocol=put"), RowKind::Transfers);
  EXPECT_EQ(scatter.kindOf("torch/scatter"), RowKind::Transfers);
  EXPECT_EQ(scatter.kindOf("torch/fused"), RowKind::Overlapped);
  EXPECT_EQ(reduce.kindOf("reduce;placement=shared"), RowKind::Transfers);
  EXPECT_EQ(reduce.kindOf("torch/reduce_two_shot"), RowKind::Transfers);
  EXPECT_EQ(reduce.kindOf("torch/sequential_one_shot"), RowKind::Sequential);
}

TEST(Operations, SendPartialResultsInTheirType) {
  const BenchTypes types(DType::BF16, DType::F32);
  auto textOf = [&](const char *row) {
    return matmulReduceScatter().makeRow(row, {8, 4, 16}, types, 2, false)->text;
  };
  EXPECT_THAT(textOf("pairwise"), HasSubstr("matmul %A, %B partial f32 : bf16[DIDx{D}, 4, 4]"));
  EXPECT_THAT(textOf("gemm"), HasSubstr("(%C: f32[8, 4])"));
  EXPECT_THAT(textOf("scatter"), HasSubstr("allocate symmetric f32[2, 4, 4]"));
  EXPECT_THAT(textOf("uncoupled"), HasSubstr("allocate device f32[8, 4]"));
}

/// All that others see of an operation works for each of the table.
TEST(Operations, HaveRowsThatTheyCanMake) {
  ASSERT_FALSE(operations().empty());
  for (const Operation &operation : operations()) {
    EXPECT_GT(operation.flops({64, 32, 16}), 0);
    for (const std::string &name : operation.standard) {
      Result<TimedRow> row = operation.makeRow(name, {64, 32, 16}, DType::F32, 2, false);
      EXPECT_TRUE(row) << operation.name << ": " << row.status().message();
    }
  }
}

TEST(Operations, SayWhereRowsDoNotDivide) {
  auto fusionOf = [](const Operation &operation, int64_t m) {
    return operation.makeRow("pairwise", {m, 4, 8}, DType::F32, 3, false)->text;
  };
  EXPECT_THAT(fusionOf(gatherMatmul(), 7), HasSubstr("input f32[DIDx{D}, ceil(7, 3), 8]"));
  EXPECT_THAT(fusionOf(gatherMatmul(), 6), HasSubstr("input f32[DIDx{D}, 2, 8]"));
  EXPECT_THAT(fusionOf(matmulReduceScatter(), 7), HasSubstr(": f32[DIDx{D}, ceil(7, 3), 4]"));
  EXPECT_THAT(fusionOf(matmulReduceScatter(), 6), HasSubstr(": f32[DIDx{D}, 2, 4]"));
  EXPECT_THAT(fusionOf(matmulAllReduce(), 7), HasSubstr(": f32[7, 4]"));
}

/// What all ranks do with rows of 8 f32, or else a message. The program has no race and no
/// deadlock, but may move what nobody has written.
std::string rowsOf(const Operation &operation, const std::string &name, int64_t m) {
  Result<TimedRow> row = operation.makeRow(name, {m, 8, 8}, DType::F32, 3, false);
  if (!row)
    return row.status().message();
  std::unique_ptr<Source> source = parseSource(name, row->text);
  Result<Compiled> compiled = compile(*source, row->options);
  if (!compiled)
    return source->diags.str() + compiled.status().message();
  const std::vector<Plan> plans = *makePlans(*compiled);
  Result<CheckReport> report = check(plans, /*fusion=*/nullptr, {});
  if (!report)
    return report.status().message();
  if (!report->isSafe() && report->violation->rule != CheckRule::Result) // that is judged last
    return str(*report);
  int64_t sent = 0, added = 0, multiplied = 0;
  for (const Plan &plan : plans) {
    for (const Endpoint &endpoint : plan.endpoints)
      sent += endpoint.direction == Direction::Send ? endpoint.range.bytes / (8 * 4) : 0;
    for (const PlanSum &sum : plan.sums)
      added += sum.elements() / 8;
    for (const PlanMatmul &gemm : plan.matmuls)
      multiplied += gemm.m;
  }
  return fmt::format("{} sent, {} added, {} multiplied", sent, added, multiplied);
}

/// Limits are those of the work: rows that do not exist count for none of it.
TEST(Operations, HaveLimitsOfTheRowsThatExist) {
  const Operation gather = gatherMatmul(), scatter = matmulReduceScatter();
  for (int64_t m : {1, 2, 4, 6, 7}) {
    const std::string gathered = fmt::format("{} sent, 0 added, ", 2 * m);
    const std::string scattered = fmt::format("{} sent, {} added, ", 2 * m, m);
    const std::string multiplied = fmt::format("{} multiplied", 3 * m);
    for (const std::string knobs :
         {"", ";protocol=put", ";placement=shared", ";placement=shared;protocol=put"}) {
      EXPECT_EQ(rowsOf(gather, "gather" + knobs, m), gathered + "0 multiplied");
      EXPECT_EQ(rowsOf(scatter, "scatter" + knobs, m), scattered + "0 multiplied");
      EXPECT_EQ(rowsOf(gather, "uncoupled" + knobs, m), gathered + multiplied);
      EXPECT_EQ(rowsOf(scatter, "uncoupled" + knobs, m), scattered + multiplied);
    }
    EXPECT_EQ(rowsOf(gather, "matmul", m), "0 sent, 0 added, " + multiplied);
    EXPECT_EQ(rowsOf(gather, "chunked", m), "0 sent, 0 added, " + multiplied);
    EXPECT_EQ(rowsOf(scatter, "gemm", m), "0 sent, 0 added, " + multiplied);
  }
}

/// But a collective takes as many rows of each rank. Of an all-reduce, it does.
TEST(Operations, HaveCollectivesOfEqualBlocksOnly) {
  auto codeOf = [](const Operation &operation, const char *row, int64_t m) {
    return operation.makeRow(row, {m, 4, 8}, DType::F32, 3, false).status().code();
  };
  EXPECT_EQ(codeOf(gatherMatmul(), "gather;transfers=collective", 6), StatusCode::Ok);
  EXPECT_EQ(codeOf(gatherMatmul(), "gather;transfers=collective", 7), StatusCode::Unsupported);
  EXPECT_EQ(codeOf(matmulReduceScatter(), "scatter;transfers=collective", 7),
            StatusCode::Unsupported);
  EXPECT_EQ(codeOf(matmulAllReduce(), "reduce;transfers=collective", 7), StatusCode::Ok);
}

/// A graph is the fair rival of a graph; eagerly, torch/fused is timed in any case.
TEST(BenchResults, PyTorchHasItsRowsAsGraphsToo) {
  auto said = [](const std::vector<bool> &graphChoices) {
    std::string text;
    for (const BenchRow &row : torchRows(gatherMatmul(), kShape, graphChoices))
      text += row.name.substr(6) + (row.isGraphed ? "* " : " ");
    return text;
  };
  const std::string eager = "matmul gather gather_copy sequential fused ";
  const std::string graphed = "matmul* gather* gather_copy* sequential* fused* ";
  EXPECT_EQ(said({false}), eager);
  EXPECT_EQ(said({true}), graphed + "fused ");
  EXPECT_EQ(said({false, true}), eager + graphed);
}

TEST(BenchResults, CompareWithTheFastestOfEverybodysLimits) {
  Shape shape{{row("matmul", 100), row("torch/matmul", 90, true), row("gather", 60),
               row("torch/gather_copy", 50), row("sequential", 170), row("torch/sequential", 150),
               row("pairwise", 120)}};
  ShapeSummary summary = shape.summary();
  EXPECT_EQ(summary.gemm, 90);
  EXPECT_EQ(summary.transfers, 50);
  EXPECT_EQ(summary.sequential, 150);
  const BenchRow &pairwise = shape.rows.back();
  EXPECT_DOUBLE_EQ(*summary.efficiency(pairwise), 0.75);
  EXPECT_DOUBLE_EQ(*summary.speedUp(pairwise), 1.25);
  EXPECT_DOUBLE_EQ(*summary.hiddenShare(pairwise), 0.5);
  const BenchRow uncoupled = row("uncoupled", 100);
  EXPECT_DOUBLE_EQ(*summary.efficiency(uncoupled), 0.9) << "what is left where nothing waits";
  EXPECT_FALSE(summary.speedUp(uncoupled));
  EXPECT_EQ(summary.best->name, "pairwise");
  EXPECT_FALSE(summary.efficiency(shape.rows.front())) << "a limit has none";
}

TEST(BenchResults, SayNothingWhereARowIsMissing) {
  BenchRow failed{kShape, "gather", false, {}, "no"};
  Shape shape{{row("matmul", 100), failed, row("pairwise", 120)}};
  EXPECT_EQ(shape.summary().limit(), 0);
  EXPECT_FALSE(shape.summary().efficiency(shape.rows.back()));
  EXPECT_FALSE(shape.summary().speedUp(shape.rows.back()));
  EXPECT_FALSE(shape.summary().hiddenShare(shape.rows.back()));
  EXPECT_EQ(Shape{{failed}}.summary().verdict(), "");
}

TEST(BenchResults, HideNothingIfThereIsNothingToHide) {
  Shape shape{{row("matmul", 100), row("gather", 1), row("sequential", 99), row("pairwise", 100)}};
  EXPECT_FALSE(shape.summary().hiddenShare(shape.rows.back()));
}

TEST(BenchResults, KnowHowAChoiceIsLaunched) {
  BenchRow automatic = row("auto", 1);
  EXPECT_FALSE(automatic.isIssuedAsGraph());
  automatic.choice = "pairwise;chunks=2;launch=graph";
  EXPECT_TRUE(automatic.isIssuedAsGraph());
  automatic.choice = "launch=graph,H=ring,Y=bulk";
  EXPECT_TRUE(automatic.isIssuedAsGraph()) << "of several stages";
  automatic.choice = "H=ring,Y=bulk";
  EXPECT_FALSE(automatic.isIssuedAsGraph());
}

TEST(BenchResults, JudgeAutoByTheBestOfAll) {
  Shape near{{row("auto", 102.9, true), row("torch/fused", 100), row("pairwise", 105)}};
  EXPECT_TRUE(near.summary().isAutoClose());
  EXPECT_EQ(near.summary().verdict(),
            "best by single runs: torch/fused 100.0 us; auto, graph 102.9 "
            "us, behind by 2.9 us (2.9 %): within 3 % or 3 us");
  Shape small{{row("auto", 12), row("sequential", 9)}};
  EXPECT_TRUE(small.summary().isAutoClose()) << "3 us";
  Shape far{{row("auto", 110), row("ring;streams=2", 100)}};
  EXPECT_FALSE(far.summary().isAutoClose());
  EXPECT_THAT(far.summary().verdict(),
              HasSubstr("not within 3 % or 3 us; again with --impl 'auto,ring;streams=2'"));
}

TEST(BenchResults, SayWhatAutoWasIssuedAs) {
  Shape shape{{row("auto", 100), row("ring", 110, true)}};
  BenchRow &automatic = shape.rows.front();
  EXPECT_FALSE(automatic.isIssuedAsGraph());
  EXPECT_TRUE(shape.rows.back().isIssuedAsGraph());
  automatic.choice = "ring;protocol=put;launch=graph";
  EXPECT_TRUE(automatic.isIssuedAsGraph());
  EXPECT_THAT(shape.summary().verdict(), HasSubstr("best by single runs: auto, graph 100.0 us;"));
  EXPECT_TRUE(automatic.isSameRow({kShape, "auto"})) << "is what was asked for";
}

TEST(BenchResults, CompareWithTheRivalByTheSpreadOfRounds) {
  BenchRow ours{kShape, "ring", false, {{100}, {104}, {110}}};
  BenchRow near{kShape, "torch/fused", true, {{90}, {95}, {101}}};
  EXPECT_EQ(
      Shape({{ours, near}}).summary().rivalVerdict(),
      "rival by single runs: torch/fused, graph 95.0 us, 0.91 times as long as ring 104.0 us");
  BenchRow far{kShape, "torch/fused", false, {{90}, {95}, {99}}};
  EXPECT_THAT(Shape({{ours, far}}).summary().rivalVerdict(), HasSubstr("slower beyond the spread"));
  EXPECT_EQ(Shape{{ours}}.summary().rivalVerdict(), "");
}

BenchRow burst(BenchRow row, std::vector<double> bursts) {
  row.bursts = std::move(bursts);
  return row;
}

TEST(BenchResults, JudgeByBurstsAsAutoDoes) {
  Shape shape{{burst(row("auto", 120), {80, 82, 90}), burst(row("ring", 100), {95, 96, 97}),
               burst(row("torch/fused", 130), {70, 79, 79.5}), row("matmul", 60),
               row("gather", 50)}};
  const ShapeSummary summary = shape.summary();
  EXPECT_TRUE(summary.isByBursts) << "parts need none";
  EXPECT_EQ(summary.best->name, "torch/fused");
  EXPECT_EQ(summary.ours->name, "auto");
  EXPECT_TRUE(summary.isAutoClose());
  EXPECT_EQ(summary.verdict(),
            "best by bursts: torch/fused 79.0 us; auto 82.0 us, behind by 3.0 us "
            "(3.8 %): within 3 % or 3 us");
  EXPECT_EQ(summary.rivalVerdict(), "rival by bursts: torch/fused 79.0 us, 0.96 times as long as "
                                    "auto 82.0 us, which is slower beyond the spread");
  EXPECT_DOUBLE_EQ(*summary.efficiency(shape.rows[1]), 0.6) << "of single runs";
}

TEST(BenchResults, JudgeByWhatAllRowsHave) {
  Shape shape{{burst(row("auto", 120), {80}), burst(row("ring", 100), {95}), row("bulk", 130)}};
  const ShapeSummary summary = shape.summary();
  EXPECT_FALSE(summary.isByBursts);
  EXPECT_EQ(summary.best->name, "ring");
  EXPECT_FALSE(summary.isAutoClose());
  BenchRow &failed = shape.rows.back();
  failed.failure = "it hung";
  EXPECT_TRUE(shape.summary().isByBursts) << "but for what was not timed";
}

TEST(BenchResults, ReadWhatTheyWrote) {
  BenchRow timed{kShape, "ring;streams=2", true, {{1.5, 2.5}, {3}}, "", "2026-11-20T00:00:00Z"};
  timed.bursts = {2, 1, 4};
  Result<BenchRow> again = benchRowFrom(toJson(timed), gatherMatmul());
  ASSERT_TRUE(again) << again.status().message();
  EXPECT_TRUE(again->isSameRow(timed));
  EXPECT_EQ(again->rounds, timed.rounds);
  EXPECT_EQ(again->date, timed.date);
  EXPECT_EQ(again->bursts, timed.bursts);
  EXPECT_EQ(again->burstTime(), 2);
  EXPECT_EQ(toJson(timed)["burst_median_us"], 2);
  BenchRow failed{kShape, "ring", false, {}, "it hung"};
  again = benchRowFrom(toJson(failed), gatherMatmul());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->failure, "it hung");
}

TEST(BenchResults, ReadFilesWithoutRoundsAndBursts) {
  Json old = {{"m", 64},        {"n", 32},
              {"k", 16},        {"implementation", "ring"},
              {"graph", false}, {"samples_us", {3, 1, 2}}};
  Result<BenchRow> read = benchRowFrom(old, gatherMatmul());
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->time(), 2);
  EXPECT_FALSE(read->burstTime());
}

std::string refusal(const std::string &text) {
  Result<ResultsFile> file = readResultsFile(text, {{"dtype", "bf16"}}, gatherMatmul());
  return file ? "read" : file.status().message();
}

TEST(BenchResults, RefuseWhatIsNoResult) {
  EXPECT_EQ(refusal("{"), "1:2: expected JSON");
  EXPECT_EQ(refusal("[]"), "expected the results of braid bench, got array");
  EXPECT_EQ(refusal(R"({"batches": )" + std::string(100, '[')),
            "1:76: expected JSON of at most 64 levels");
  EXPECT_EQ(refusal(R"({"dtype": "f32", "rows": []})"), R"("dtype": expected "bf16", got "f32")");
  EXPECT_EQ(refusal(R"({"dtype": "bf16"})"), R"("rows": expected a list, got nothing)");
  EXPECT_EQ(refusal(R"({"dtype": "bf16", "rows": [[]]})"),
            R"("rows": expected objects, got array)");
  EXPECT_EQ(refusal(R"({"dtype": "bf16", "rows": [{"m": 0}]})"),
            R"("m": expected a number from 1 on, got 0)");
  auto withRow = [](const std::string &rest) {
    return R"({"dtype": "bf16", "rows": [{"m": 1, "n": 1, "k": 1)" + rest + "}]}";
  };
  EXPECT_EQ(refusal(withRow("")), R"("implementation": expected a text, got nothing)");
  EXPECT_EQ(refusal(withRow(R"(, "implementation": "ring", "graph": 1)")),
            R"("graph": expected true or false, got 1)");
  const std::string ring = R"(, "implementation": "ring", "graph": true)";
  EXPECT_EQ(refusal(withRow(ring)), R"("rounds_us": expected a list of rounds, got nothing)");
  EXPECT_EQ(refusal(withRow(ring + R"(, "rounds_us": [[1, -1]])")),
            R"("rounds_us": expected times in every round, got array)");
  EXPECT_EQ(refusal(withRow(ring + R"(, "rounds_us": [[1, 2]], "burst_us": [null])")),
            R"("burst_us": expected a list of times, got array)");
  EXPECT_EQ(refusal(withRow(ring + R"(, "rounds_us": [[1, 2]])")), "read");
}

} // namespace
} // namespace braid
