//===- tests/api/prediction_test.cpp - predictions beside what was measured on GPUs -----------===//
//
// docs/results/h200 holds the times of many rows, and a cost model of that machine whose numbers
// are those of docs/measurements.md and of the rows that time a part alone. Prints the table that
// docs/performance.md sums up.
//
//===----------------------------------------------------------------------------------------===//

#include "api/gather_bench.h"
#include "api/plans.h"
#include "runtime/simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace braid {
namespace {

constexpr const char *kFolder = "docs/results/h200";

std::string readAll(const std::filesystem::path &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The error of the prediction for a measured row, as a part of what was measured.
double errorOf(const nlohmann::json &row, const CostModel &model) {
  const GatherShape shape{row["m"], row["n"], row["k"]};
  const std::string name = row["implementation"];
  Result<GatherRow> made = makeGatherRow(name, shape, DType::BF16, model.ranks, row["graph"]);
  EXPECT_TRUE(made.isOk()) << made.status().message();
  std::unique_ptr<Source> source = parseSource(name, made->text);
  Result<Compiled> compiled = compile(*source, made->options);
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Result<std::vector<Plan>> plans = makePlans(*compiled);
  const Issuing issuing = made->isGraphed ? Issuing::Graph : Issuing::Eager;
  Result<Simulation> simulation = simulate(*plans, model, {issuing});
  EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
  const double measured = row["median_us"];
  const double error = (simulation->us - measured) / measured;
  fmt::print("{:>5} x {:>4} x {:>5}  {:<42}{:>6}{:>10.1f}{:>10.1f}{:>+7.1f} %\n", shape.m, shape.n,
             shape.k, name, braid::name(issuing).str(), measured, simulation->us, 100 * error);
  return error;
}

TEST(Prediction, IsWithinFifteenPercentOnAverage) {
  Result<CostModel> model =
      CostModel::decode(readAll(std::filesystem::path(kFolder) / "cost_model.json"));
  ASSERT_TRUE(model.isOk()) << model.status().message();
  double sum = 0;
  int count = 0;
  for (const char *file : {"gather_2048-2048-2048.json", "gather_4096-4096-4096.json",
                           "gather_8192-8192-8192.json", "gather_32768-8192-16384.json"}) {
    nlohmann::json json = nlohmann::json::parse(readAll(std::filesystem::path(kFolder) / file));
    for (const nlohmann::json &row : json["rows"]) {
      sum += std::abs(errorOf(row, *model));
      ++count;
    }
  }
  fmt::print("mean error of {} rows: {:.1f} %\n", count, 100 * sum / count);
  EXPECT_LT(sum / count, 0.15);
}

} // namespace
} // namespace braid
