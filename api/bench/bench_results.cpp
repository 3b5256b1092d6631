//===- api/bench/bench_results.cpp - the results of a bench -----------------------------------===//

#include "api/bench/bench_results.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace braid {

Spread spreadOf(std::vector<double> samples) {
  if (samples.empty())
    return {};
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  auto at = [&](double quantile) {
    return samples[static_cast<size_t>(std::lround(quantile * double(count - 1)))];
  };
  return {(samples[(count - 1) / 2] + samples[count / 2]) / 2, at(0.1), at(0.9)};
}

void BenchRow::fail(const Status &status) {
  failure = llvm::StringRef(status.message()).split('\n').first.str();
  code = status.code();
}

double BenchRow::time() const {
  std::vector<double> medians;
  for (const std::vector<double> &round : rounds)
    medians.push_back(spreadOf(round).median);
  return spreadOf(std::move(medians)).median;
}

Spread BenchRow::spread() const {
  std::vector<double> all;
  for (const std::vector<double> &round : rounds)
    all.insert(all.end(), round.begin(), round.end());
  return spreadOf(std::move(all));
}

std::optional<double> BenchRow::burstTime() const {
  return bursts.empty() ? std::nullopt : std::optional(spreadOf(bursts).median);
}

BenchLimits BenchLimits::of(llvm::ArrayRef<BenchRow> rows) {
  BenchLimits limits;
  limits.areOfBursts =
      llvm::all_of(rows, [](const BenchRow &row) { return !row.isTimed() || !row.bursts.empty(); });
  auto fastest = [&](RowKind kind) {
    double us = 0;
    for (const BenchRow &row : rows)
      if (row.isTimed() && row.kind == kind)
        us = us == 0 ? limits.timeOf(row) : std::min(us, limits.timeOf(row));
    return us;
  };
  limits.gemms = fastest(RowKind::Gemms);
  limits.transfers = fastest(RowKind::Transfers);
  return limits;
}

std::optional<double> BenchLimits::efficiency(const BenchRow &row) const {
  const bool hasBothParts = row.kind == RowKind::Uncoupled || row.kind == RowKind::Sequential ||
                            row.kind == RowKind::Overlapped;
  if (!row.isTimed() || !hasBothParts || gemms <= 0 || transfers <= 0 || timeOf(row) <= 0)
    return std::nullopt;
  return std::max(gemms, transfers) / timeOf(row);
}

void writeMembers(JsonWriter &json, const BenchRow &row) {
  json.attribute("implementation", row.name);
  json.attribute("graph", row.isGraphed);
  if (!row.choice.empty())
    json.attribute("choice", row.choice);
  if (!row.failure.empty())
    json.attribute("failure", row.failure);
  if (!row.isTimed())
    return;
  const Spread spread = row.spread();
  json.attribute("median_us", row.time());
  json.attribute("p10_us", spread.low);
  json.attribute("p90_us", spread.high);
  json.attribute("rounds_us", row.rounds);
  if (std::optional<double> us = row.burstTime()) {
    json.attribute("burst_median_us", *us);
    json.attribute("burst_us", row.bursts);
  }
}

} // namespace braid
