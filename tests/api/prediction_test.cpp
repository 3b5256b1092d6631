//===- tests/api/prediction_test.cpp - predictions compared with times on GPUs ----------------===//
//
// tests/data contains the times of 56 benchmark rows on four H200 and a cost model of that machine.
// The model was derived from the rows that time only GEMMs or only transfers, and from separate
// measurements of copies and signals. The costs of chunked GEMMs are estimates. The test prints the
// predicted and the measured time of each row.
//
//===----------------------------------------------------------------------------------------===//

#include "api/bench/bench_row.h"
#include "api/bench/operation.h"
#include "api/compile/plans.h"
#include "runtime/simulate/simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

namespace braid {
namespace {

struct MeasuredRow {
  BenchShape shape;
  bool isGraphed = false;
  double us = 0;
  std::string name;
};

std::string readAll(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Reads one line for each row, after the title: m,n,k,graph,median_us,row.
std::vector<MeasuredRow> readRows() {
  std::vector<MeasuredRow> rows;
  std::ifstream in("tests/data/gather_rows.csv");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    MeasuredRow row;
    char comma = 0;
    if (words >> row.shape.m >> comma >> row.shape.n >> comma >> row.shape.k >> comma >>
        row.isGraphed >> comma >> row.us >> comma >> row.name)
      rows.push_back(row);
  }
  return rows;
}

/// The relative error of the prediction for a measured row.
double errorOf(const MeasuredRow &row, const CostModel &model) {
  const BenchShape &shape = row.shape;
  const std::string text = operations()[0].fusion(shape, DType::BF16, model.ranks);
  Result<TimedRow> made =
      makeRow({"gather-matmul", text, {.ranks = model.ranks}}, row.name, row.isGraphed);
  EXPECT_TRUE(made.isOk()) << made.status().message();
  std::unique_ptr<Source> source = parseSource(row.name, made->text);
  Result<Compiled> compiled = compile(*source, made->options);
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  for (Plan &plan : *plans)
    plan = partOf(std::move(plan), made->kind);
  const LaunchMode launchMode = made->isGraphed ? LaunchMode::Graph : LaunchMode::Eager;
  Result<Simulation> simulation = simulate(*plans, model, {launchMode});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  const double error = (simulation->us - row.us) / row.us;
  fmt::print("{:>5} x {:>4} x {:>5}  {:<42}{:>6}{:>10.1f}{:>10.1f}{:>+7.1f} %\n", shape.m, shape.n,
             shape.k, row.name, name(launchMode).str(), row.us, simulation->us, 100 * error);
  return error;
}

TEST(Prediction, IsWithinFifteenPercentOnAverage) {
  Result<CostModel> model = CostModel::decode(readAll("machines/h200-4.json"));
  ASSERT_TRUE(model.isOk()) << model.status().message();
  const std::vector<MeasuredRow> rows = readRows();
  ASSERT_EQ(rows.size(), 56u);
  double sum = 0;
  for (const MeasuredRow &row : rows)
    sum += std::abs(errorOf(row, *model));
  const double mean = sum / double(rows.size());
  fmt::print("mean error of {} rows: {:.1f} %\n", rows.size(), 100 * mean);
  EXPECT_LT(mean, 0.15);
}

} // namespace
} // namespace braid
