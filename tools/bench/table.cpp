//===- tools/bench/table.cpp - the rows of a shape, for people --------------------------------===//

#include "tools/bench/results.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

std::string cell(std::optional<double> number, int width, const char *format = "{:.3f}") {
  std::string text = number ? fmt::format(fmt::runtime(format), *number) : "-";
  return fmt::format("{:>{}}", text, width);
}

/// The column of names is wide enough for each of them.
size_t widthOf(llvm::ArrayRef<const BenchRow *> rows) {
  size_t width = 32;
  for (const BenchRow *row : rows)
    width = std::max(width, row->name.size() + 2);
  return width;
}

std::string lineOf(const BenchRow &row, size_t width, const ShapeSummary &summary, double flops) {
  std::string line =
      fmt::format("  {:<{}}{:>7}", row.name, width, row.isIssuedAsGraph() ? "yes" : "no");
  if (!row.isTimed())
    return line + "  failed: " + row.failure;
  const Spread spread = row.spread();
  std::optional<double> rate;
  if (row.kind != RowKind::Transfers && row.time() > 0)
    rate = flops / row.time() * 1e-6;
  line += fmt::format("{:>12.1f}{:>12.1f}{:>12.1f}", row.time(), spread.low, spread.high);
  line += cell(row.burstTime(), 12, "{:.1f}") + cell(rate, 10, "{:.1f}") +
          cell(summary.efficiency(row), 7) + cell(summary.speedUp(row), 10, "{:.2f}") +
          cell(summary.hiddenShare(row), 8, "{:.2f}");
  return row.choice.empty() ? line : line + "  " + row.choice;
}

} // namespace

void BenchResults::printTable(const BenchShape &shape) const {
  const std::vector<const BenchRow *> rows = rowsOf(shape);
  const ShapeSummary summary = ShapeSummary::of(rows);
  llvm::raw_ostream &os = flags_.csv == "-" || flags_.json == "-" ? llvm::errs() : llvm::outs();
  const size_t width = widthOf(rows);
  os << fmt::format("{}\n  {:<{}}{:>7}{:>12}{:>12}{:>12}{:>12}{:>10}{:>7}{:>10}{:>8}\n",
                    flags_.operation.title(shape), "row", width, "graph", "median us", "p10", "p90",
                    "burst us", "TFLOP/s", "E", "speed-up", "hidden");
  for (const BenchRow *row : rows)
    os << lineOf(*row, width, summary, flags_.operation.flops(shape)) << "\n";
  for (const std::string &line : {summary.verdict(), summary.rivalVerdict()})
    if (!line.empty())
      os << "  " << line << "\n";
  os.flush();
}

} // namespace braid::tools
