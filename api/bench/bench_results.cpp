//===- api/bench/bench_results.cpp - what a bench measured, and what follows from it ----------===//

#include "api/bench/bench_results.h"

#include "ir/failure.h"
#include "runtime/json_mistake.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr const char *kTorch = "torch/";

/// The lower of two times of which 0 stands for none.
void takeFaster(double &fastest, double time) {
  fastest = fastest == 0 ? time : std::min(fastest, time);
}

std::string label(const BenchRow &row) {
  return row.name + (row.isIssuedAsGraph() ? ", graph" : "");
}

/// Rows that are compared with each other.
bool haveBursts(llvm::ArrayRef<const BenchRow *> rows) {
  return llvm::all_of(rows, [](const BenchRow *row) {
    return !row->isTimed() || !row->doesAllWork() || row->burstTime();
  });
}

Status unexpected(const char *key, const std::string &expected, const Json &got) {
  return badInput("\"{}\": expected {}, got {}", key, expected, jsonGot(got));
}

/// Microseconds that somebody can have measured.
bool isTime(const Json &json) {
  return json.is_number() && std::isfinite(json.get<double>()) && json.get<double>() >= 0;
}

const Json &field(const Json &object, const char *key) {
  static const Json none;
  auto found = object.find(key);
  return found == object.end() ? none : *found;
}

Status readShape(const Json &json, const Operation &operation, BenchShape &shape) {
  if (!operation.hasShapes)
    return Status::ok();
  for (auto [key, extent] : {std::pair("m", &shape.m), {"n", &shape.n}, {"k", &shape.k}}) {
    const Json &value = field(json, key);
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      return unexpected(key, "a number from 1 on", value);
    *extent = value.get<int64_t>();
  }
  return Status::ok();
}

Status readRounds(const Json &json, BenchRow &row) {
  // What was not measured in rounds is one round.
  const Json &samples = field(json, "samples_us");
  const Json rounds = samples.is_null() ? field(json, "rounds_us") : Json::array({samples});
  if (!rounds.is_array() || rounds.empty())
    return unexpected("rounds_us", "a list of rounds", rounds);
  for (const Json &round : rounds) {
    if (!round.is_array() || round.empty() || !std::all_of(round.begin(), round.end(), isTime))
      return unexpected("rounds_us", "times in every round", round);
    row.rounds.push_back(round.get<std::vector<double>>());
  }
  // What was measured before there were bursts has none.
  const Json &bursts = field(json, "burst_us");
  if (bursts.is_null())
    return Status::ok();
  if (!bursts.is_array() || !std::all_of(bursts.begin(), bursts.end(), isTime))
    return unexpected("burst_us", "a list of times", bursts);
  row.bursts = bursts.get<std::vector<double>>();
  return Status::ok();
}

} // namespace

Spread spreadOf(std::vector<double> samples) {
  if (samples.empty())
    return {};
  std::sort(samples.begin(), samples.end());
  auto at = [&](double quantile) {
    return samples[static_cast<size_t>(
        std::lround(quantile * static_cast<double>(samples.size() - 1)))];
  };
  const size_t count = samples.size();
  return {(samples[(count - 1) / 2] + samples[count / 2]) / 2, at(0.1), at(0.9)};
}

bool isAutoRow(llvm::StringRef name) { return name.split(';').first == "auto"; }

bool isTorchRow(llvm::StringRef name) { return std::string_view(name).starts_with(kTorch); }

std::vector<BenchRow> torchRows(const Operation &operation, const BenchShape &shape,
                                const std::vector<bool> &graphChoices) {
  std::vector<BenchRow> rows;
  auto add = [&](const RowType &type, bool isGraphed) {
    rows.push_back({shape, type.name, isGraphed, {}, "", "", "", type.kind});
  };
  for (bool isGraphed : graphChoices)
    for (const RowType &type : operation.rivals)
      add(type, isGraphed);
  if (!llvm::is_contained(graphChoices, false))
    for (const RowType &type : operation.rivals)
      if (type.isEagerToo)
        add(type, false);
  return rows;
}

bool BenchRow::isIssuedAsGraph() const {
  if (choice.empty())
    return isGraphed;
  Result<Configurations> chosen = Configurations::parse(choice);
  return chosen && chosen->all.launch() == schedule::Launch::Graph;
}

double BenchRow::time() const { return spreadOf(medians()).median; }

std::vector<double> BenchRow::medians() const {
  std::vector<double> medians;
  for (const std::vector<double> &round : rounds)
    medians.push_back(spreadOf(round).median);
  return medians;
}

std::vector<double> BenchRow::samples() const {
  std::vector<double> all;
  for (const std::vector<double> &round : rounds)
    all.insert(all.end(), round.begin(), round.end());
  return all;
}

std::optional<double> BenchRow::burstTime() const {
  return bursts.empty() ? std::nullopt : std::optional(spreadOf(bursts).median);
}

//===- A shape --------------------------------------------------------------------------------===//

void ShapeSummary::takeFaster(const BenchRow *&fastest, const BenchRow &row) const {
  if (!fastest || judgedTime(row) < judgedTime(*fastest))
    fastest = &row;
}

ShapeSummary ShapeSummary::of(llvm::ArrayRef<const BenchRow *> rows) {
  ShapeSummary summary;
  summary.isByBursts = haveBursts(rows);
  for (const BenchRow *row : rows) {
    if (!row->isTimed())
      continue;
    if (row->doesAllWork()) {
      summary.takeFaster(summary.best, *row);
      summary.takeFaster(isTorchRow(row->name) ? summary.rival : summary.ours, *row);
    }
    if (isAutoRow(row->name))
      summary.takeFaster(summary.automatic, *row);
    if (row->kind == RowKind::Gemm)
      braid::takeFaster(summary.gemm, row->time());
    if (row->kind == RowKind::Transfers)
      braid::takeFaster(summary.transfers, row->time());
    if (row->kind == RowKind::Sequential)
      braid::takeFaster(summary.sequential, row->time());
  }
  return summary;
}

std::optional<double> ShapeSummary::efficiency(const BenchRow &row) const {
  const bool hasBothParts = row.doesAllWork() || row.kind == RowKind::Uncoupled;
  if (!row.isTimed() || !hasBothParts || limit() <= 0 || row.time() <= 0)
    return std::nullopt;
  return limit() / row.time();
}

std::optional<double> ShapeSummary::speedUp(const BenchRow &row) const {
  if (!row.isTimed() || !row.doesAllWork() || sequential <= 0 || row.time() <= 0)
    return std::nullopt;
  return sequential / row.time();
}

std::optional<double> ShapeSummary::hiddenShare(const BenchRow &row) const {
  if (!row.isTimed() || !row.doesAllWork() || gemm <= 0 || sequential <= gemm)
    return std::nullopt;
  return (sequential - row.time()) / (sequential - gemm);
}

bool ShapeSummary::isAutoClose() const {
  constexpr double kShare = 0.03, kMicroseconds = 3;
  if (!automatic)
    return false;
  const double bestUs = judgedTime(*best);
  return judgedTime(*automatic) <= bestUs + std::max(kShare * bestUs, kMicroseconds);
}

std::string ShapeSummary::verdict() const {
  if (!best)
    return "";
  const double bestUs = judgedTime(*best);
  std::string line = fmt::format("best by {}: {} {:.1f} us", isByBursts ? "bursts" : "single runs",
                                 label(*best), bestUs);
  if (!automatic)
    return line;
  const double us = judgedTime(*automatic);
  line += fmt::format("; {} {:.1f} us, behind by {:.1f} us ({:.1f} %): {}", label(*automatic), us,
                      us - bestUs, 100 * (us - bestUs) / bestUs,
                      isAutoClose() ? "within 3 % or 3 us" : "not within 3 % or 3 us");
  if (!isAutoClose() && !isTorchRow(best->name))
    line += fmt::format("; again with --impl 'auto{}{}'",
                        namesStages(best->name) ? "' --impl '" : ",", best->name);
  return line;
}

/// What the spread of a row is judged by.
std::vector<double> ShapeSummary::judgedParts(const BenchRow &row) const {
  return isByBursts ? row.bursts : row.medians();
}

std::string ShapeSummary::rivalVerdict() const {
  if (!ours || !rival || judgedTime(*ours) <= 0)
    return "";
  const std::vector<double> mine = judgedParts(*ours), theirs = judgedParts(*rival);
  const bool isBehind =
      *std::min_element(mine.begin(), mine.end()) > *std::max_element(theirs.begin(), theirs.end());
  return fmt::format("rival by {}: {} {:.1f} us, {:.2f} times as long as {} {:.1f} us{}",
                     isByBursts ? "bursts" : "single runs", label(*rival), judgedTime(*rival),
                     judgedTime(*rival) / judgedTime(*ours), label(*ours), judgedTime(*ours),
                     isBehind ? ", which is slower beyond the spread" : "");
}

std::vector<const BenchRow *> rowsOfShape(llvm::ArrayRef<BenchRow> rows, const BenchShape &shape) {
  std::vector<const BenchRow *> found;
  for (const BenchRow &row : rows)
    if (row.shape == shape)
      found.push_back(&row);
  return found;
}

//===- JSON -----------------------------------------------------------------------------------===//

Json toJson(const BenchRow &row) {
  Json json = {{"implementation", row.name}, {"graph", row.isGraphed}, {"date", row.date}};
  if (row.shape != BenchShape())
    json.update({{"m", row.shape.m}, {"n", row.shape.n}, {"k", row.shape.k}});
  if (!row.choice.empty())
    json["choice"] = row.choice;
  if (!row.failure.empty()) {
    json["failure"] = row.failure;
    return json;
  }
  Spread spread = row.spread();
  json.update({{"median_us", row.time()},
               {"p10_us", spread.low},
               {"p90_us", spread.high},
               {"medians_us", row.medians()},
               {"rounds_us", row.rounds}});
  if (std::optional<double> us = row.burstTime())
    json.update({{"burst_us", row.bursts}, {"burst_median_us", *us}});
  return json;
}

Result<BenchRow> benchRowFrom(const Json &json, const Operation &operation) {
  if (!json.is_object())
    return unexpected("rows", "objects", json);
  BenchRow row;
  BRAID_TRY(readShape(json, operation, row.shape));
  for (auto [key, text] : {std::pair("implementation", &row.name),
                           {"failure", &row.failure},
                           {"date", &row.date},
                           {"choice", &row.choice}}) {
    const Json &value = field(json, key);
    if (!value.is_string() && (!value.is_null() || text == &row.name))
      return unexpected(key, "a text", value);
    *text = value.is_null() ? "" : value.get<std::string>();
  }
  const Json &graph = field(json, "graph");
  if (!graph.is_boolean())
    return unexpected("graph", "true or false", graph);
  row.isGraphed = graph.get<bool>();
  row.kind = operation.kindOf(row.name);
  if (row.failure.empty())
    BRAID_TRY(readRounds(json, row));
  return row;
}

Result<ResultsFile> readResultsFile(const std::string &text, const Json &question,
                                    const Operation &operation) {
  ResultsFile file;
  const Json &json = file.json;
  try {
    file.json = parsedJson<Json>(text);
  } catch (const Json::exception &error) {
    return badInput("{}", jsonMistake(text, error));
  }
  if (!json.is_object())
    return badInput("expected the results of braid bench, got {}", jsonGot(json));
  for (const auto &[key, value] : question.items()) {
    const Json &answer = field(json, key.c_str());
    const bool isNo = answer.is_null() && value == false; // asked since the file was written
    if (answer != value && !isNo)
      return unexpected(key.c_str(), value.dump(), answer);
  }
  const Json &list = field(json, "rows");
  if (!list.is_array())
    return unexpected("rows", "a list", list);
  for (const Json &each : list)
    file.rows.push_back(BRAID_TRY(benchRowFrom(each, operation)));
  return file;
}

} // namespace braid
