//===- tests/api/bench_results_test.cpp - benchmark rows and figures derived from times -------===//

#include "api/bench/bench_results.h"

#include "api/bench/operation.h"
#include "api/compile/plans.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;

BenchRow row(const std::string &name, double us, std::vector<double> bursts = {}) {
  return {.name = name, .kind = kindOfRow(name), .rounds = {{us}}, .bursts = std::move(bursts)};
}

TEST(BenchResults, TakeTheMedianOfTheMediansOfRounds) {
  const BenchRow disturbed{.name = "ring", .rounds = {{10, 11, 12}, {90, 90, 90}, {11, 12, 13}}};
  EXPECT_EQ(disturbed.time(), 12);
  EXPECT_EQ(disturbed.spread().high, 90);
  EXPECT_EQ(BenchRow().time(), 0);
  EXPECT_EQ((BenchRow{.name = "ring", .rounds = {{10, 12}, {20, 22}}}).time(), 16);
  EXPECT_EQ(spreadOf({5, 1, 9, 3, 7, 2, 8, 4, 6, 10, 11}).low, 2);
}

TEST(BenchResults, KnowRowsByName) {
  EXPECT_EQ(kindOfRow("gemms"), RowKind::Gemms);
  EXPECT_EQ(kindOfRow("chunked;chunks=2"), RowKind::ChunkedGemms);
  EXPECT_EQ(kindOfRow("transfers;protocol=put"), RowKind::Transfers);
  EXPECT_EQ(kindOfRow("uncoupled"), RowKind::Uncoupled);
  EXPECT_EQ(kindOfRow("sequential;chunks=2"), RowKind::Sequential);
  for (const char *name : {"auto", "given", "pairwise;streams=2", "H=ring,Y=pairwise"})
    EXPECT_EQ(kindOfRow(name), RowKind::Overlapped) << name;
}

TEST(BenchResults, CompareTheLongerLimitWithAllTheWork) {
  std::vector<BenchRow> rows = {row("gemms", 90), row("gemms;streams=1", 80), row("transfers", 60),
                                row("ring", 100), row("uncoupled", 160),      row("chunked", 85)};
  BenchLimits limits = BenchLimits::of(rows);
  EXPECT_FALSE(limits.areOfBursts);
  EXPECT_EQ(limits.gemms, 80);
  EXPECT_EQ(limits.transfers, 60);
  EXPECT_EQ(limits.efficiency(rows[3]), 0.8);
  EXPECT_EQ(limits.efficiency(rows[4]), 0.5);
  for (size_t part : {0, 2, 5})
    EXPECT_FALSE(limits.efficiency(rows[part])) << rows[part].name;
  rows[2].failure = "refused";
  EXPECT_FALSE(BenchLimits::of(rows).efficiency(rows[3])) << "a limit is missing";
}

TEST(BenchResults, GoByBurstsWhereAllHaveSome) {
  std::vector<BenchRow> rows = {row("gemms", 90, {40, 60, 50}), row("transfers", 60, {30}),
                                row("ring", 100, {100}), row("failed", 1)};
  rows[3].failure = "refused";
  EXPECT_EQ(BenchLimits::of(rows).efficiency(rows[2]), 0.5);
  rows[1].bursts.clear();
  EXPECT_EQ(BenchLimits::of(rows).efficiency(rows[2]), 0.9);
}

std::string jsonOf(const BenchRow &row) {
  return jsonText([&](JsonWriter &json) { json.object([&] { writeMembers(json, row); }); });
}

TEST(BenchResults, AreJson) {
  BenchRow timed{.name = "auto", .isGraphed = true, .rounds = {{1, 2, 3}, {4}}, .bursts = {5, 7}};
  timed.choice = "ring";
  EXPECT_EQ(jsonOf(timed),
            R"({"implementation":"auto","graph":true,"choice":"ring","median_us":3,"p10_us":1,)"
            R"("p90_us":4,"rounds_us":[[1,2,3],[4]],"burst_median_us":6,"burst_us":[5,7]})");
  BenchRow refused{.name = "ring"};
  refused.fail(Status(StatusCode::Unsupported, "not here\nand more"));
  EXPECT_EQ(jsonOf(refused), R"({"implementation":"ring","graph":false,"failure":"not here"})");
  EXPECT_EQ(refused.code, StatusCode::Unsupported);
}

//===- Rows of operations ---------------------------------------------------------------------===//

BenchProblem problemOf(const Operation &operation, BenchShape shape, int64_t ranks) {
  return {operation.name, operation.fusion(shape, DType::F32, ranks), {.ranks = ranks}};
}

/// Returns how many rows, of 8 f32 each, all ranks send, add and multiply, or an error message.
std::string rowsOf(const Operation &operation, const std::string &name, int64_t m) {
  Result<TimedRow> row = makeRow(problemOf(operation, {m, 8, 8}, 3), name, false);
  if (!row)
    return row.status().message();
  std::unique_ptr<Source> source = parseSource(name, row->text);
  Result<Compiled> compiled = compile(*source, row->options);
  if (!compiled)
    return source->diags.str() + compiled.status().message();
  const std::vector<Plan> plans = *makePlans(*compiled);
  int64_t sent = 0, added = 0, multiplied = 0;
  for (const Plan &whole : plans) {
    const Plan plan = partOf(whole, row->kind);
    for (const Command &command : plan.commands) {
      if (command.kind == CommandKind::Copy && command.endpoint != kNone)
        sent += plan.endpoints[command.endpoint].range.bytes / (8 * 4);
      if (command.kind == CommandKind::Sum)
        added += plan.sums[command.sum].elements() / 8;
      if (command.kind == CommandKind::Matmul)
        multiplied += plan.matmuls[command.matmul].m;
    }
  }
  return fmt::format("{} sent, {} added, {} multiplied", sent, added, multiplied);
}

TEST(Operations, HaveRowsThatCanBeMade) {
  ASSERT_FALSE(operations().empty());
  for (const Operation &operation : operations())
    for (const std::string &name : operation.standard)
      EXPECT_THAT(rowsOf(operation, name, 12), HasSubstr("sent")) << operation.name << " " << name;
}

/// The limits count only rows of the tensors, not padding.
TEST(Operations, HaveLimitsOfTheRowsThatExist) {
  const Operation &gather = operations()[0], &scatter = operations()[1];
  for (int64_t m : {1, 2, 4, 6, 7}) {
    const std::string gathered = fmt::format("{} sent, 0 added, ", 2 * m);
    const std::string scattered = fmt::format("{} sent, {} added, ", 2 * m, m);
    const std::string multiplied = fmt::format("{} multiplied", 3 * m);
    for (const std::string knobs : {"", ";protocol=put"}) {
      EXPECT_EQ(rowsOf(gather, "transfers" + knobs, m), gathered + "0 multiplied");
      EXPECT_EQ(rowsOf(scatter, "transfers" + knobs, m), scattered + "0 multiplied");
      EXPECT_EQ(rowsOf(gather, "uncoupled" + knobs, m), gathered + multiplied);
      EXPECT_EQ(rowsOf(scatter, "uncoupled" + knobs, m), scattered + multiplied);
    }
    for (const char *name : {"gemms", "chunked"}) {
      EXPECT_EQ(rowsOf(gather, name, m), "0 sent, 0 added, " + multiplied);
      EXPECT_EQ(rowsOf(scatter, name, m), "0 sent, 0 added, " + multiplied);
    }
  }
}

TEST(Operations, RefuseOtherNames) {
  EXPECT_THAT(rowsOf(operations()[0], "fast", 4),
              HasSubstr("--impl fast: expected one of gemms, "));
  EXPECT_THAT(rowsOf(operations()[0], "ring;streams=x", 4), HasSubstr("--impl ring;streams=x"));
}

/// The GEMMs and the transfers do not wait for each other, and the run ends when both have ended.
TEST(Uncoupled, HasStreamsOfItsOwnForEachPart) {
  Result<TimedRow> row = makeRow(problemOf(operations()[1], {8, 8, 8}, 2), "uncoupled", false);
  std::unique_ptr<Source> source = parseSource("t", row->text);
  Result<Compiled> compiled = compile(*source, row->options);
  const Plan plan = partOf(makePlans(*compiled)->front(), row->kind);
  std::map<bool, std::set<uint32_t>> streams; // keyed by whether the command is a GEMM
  for (const Command &command : plan.commands)
    if (command.kind != CommandKind::Record && command.kind != CommandKind::WaitEvent)
      streams[command.kind == CommandKind::Matmul].insert(command.stream);
  for (uint32_t stream : streams[true])
    EXPECT_FALSE(streams[false].count(stream)) << stream;
  EXPECT_FALSE(streams[true].empty() || streams[false].empty());
  EXPECT_EQ(plan.commands.back().kind, CommandKind::WaitEvent);
  EXPECT_EQ(plan.commands.back().stream, 0u);
}

} // namespace
} // namespace braid
