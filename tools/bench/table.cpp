//===- tools/bench/table.cpp - the rows of a shape, for people --------------------------------===//

#include "tools/bench/results.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

/// What one column holds; a number too wide for it widens it, and never touches its neighbour.
std::string cell(llvm::StringRef text, int width) {
  return fmt::format(" {:>{}}", text.str(), width - 1);
}

std::string cell(std::optional<double> number, int width, int digits) {
  return cell(number ? fmt::format("{:.{}f}", *number, digits) : "-", width);
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
      fmt::format("  {:<{}}", row.name, width) + cell(row.isIssuedAsGraph() ? "yes" : "no", 7);
  if (!row.isTimed())
    return line + "  failed: " + row.failure;
  const Spread spread = row.spread();
  std::optional<double> rate;
  if (row.kind != RowKind::Transfers && row.time() > 0)
    rate = flops / row.time() * 1e-6;
  line += cell(row.time(), 12, 1) + cell(spread.low, 12, 1) + cell(spread.high, 12, 1) +
          cell(row.burstTime(), 12, 1) + cell(rate, 10, 1) + cell(summary.efficiency(row), 7, 3) +
          cell(summary.speedUp(row), 10, 2) + cell(summary.hiddenShare(row), 8, 2);
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
