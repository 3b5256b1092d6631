//===- tools/bench/flags.cpp - the flags of `braid bench` -------------------------------------===//

#include "tools/bench/flags.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

constexpr const char *kMethod = R"(
;KNOB=VALUE after a row changes a knob, as the flags of braid run do. A LIST that names tensors, as
--impl 'H=ring,Y=pairwise;chunks=2' does, is one row with a schedule for each stage.

The rows are timed in alternation. Times are in microseconds, and are the maximum over ranks. Single
runs are timed after a barrier; in a burst, runs follow one another for about 10 ms.
E is the time of the fastest gemms or transfers, whichever is longer, divided by the time of the
row; bursts are used if all rows have them. tools/bench_torch.py compares Braid with PyTorch, NCCL
and others.
)";

std::string rowsText() {
  std::string text =
      "\nEach row is either a way to compute the result or a bound on its run time:\n\n";
  for (const RowType &type : rowTypes())
    text += fmt::format("  {:<10}  {}\n", type.name, type.help);
  return text + "  a schedule  see braid run --schedule\n";
}

/// Splits comma-separated lists into rows. A list that names stages is a single row.
std::vector<std::string> namesIn(const std::vector<std::string> &lists) {
  std::vector<std::string> rows;
  for (const std::string &list : lists)
    if (namesStages(list))
      rows.push_back(list);
    else
      for (llvm::StringRef name : llvm::split(list, ','))
        rows.push_back(name.str());
  return rows;
}

/// Returns the default rows. If data is sent as messages, omits rows that set a protocol, and adds
/// `collective`.
std::vector<std::string> usualRows(const BenchFlags &flags, Transport transport) {
  std::vector<std::string> rows = flags.standard;
  if (transport == Transport::PeerMemory)
    return rows;
  llvm::erase_if(rows,
                 [](const std::string &row) { return row.find("protocol=") != std::string::npos; });
  if (flags.operation)
    rows.push_back("collective");
  return rows;
}

/// Parses a shape such as "8192x7168x4096", without checking ranges. Returns nullopt on failure.
std::optional<BenchShape> parseShape(llvm::StringRef text) {
  BenchShape shape;
  auto [m, rest] = text.split('x');
  auto [n, k] = rest.split('x');
  if (m.getAsInteger(10, shape.m) || n.getAsInteger(10, shape.n) || k.getAsInteger(10, shape.k))
    return std::nullopt;
  return shape;
}

} // namespace

void BenchFlags::addShapesTo(CLI::App &app) {
  const auto &[rows, columns, contracted] = operation->extents;
  addInteger(app, "-m", m, "M,...", rows)->delimiter(',');
  addInteger(app, "-n", n, "N,...", columns)->delimiter(',');
  addInteger(app, "-k", k, "K,...", contracted)->delimiter(',');
  addText(app, "--shapes", listed, "MxNxK,...",
          "shapes to time, instead of all combinations of -m, -n and -k")
      ->delimiter(',');
  addText(app, "--dtype", dtype, "TYPE", "bf16 (default), f16, f32 or f64");
  addInteger(app, "--ranks", ranks, "N", "number of ranks, one process each (default: 2)");
  addReproducible(app, source.reproducible);
  app.footer("\n" + operation->help +
             "\nEach combination of values for -m, -n and -k is timed as a separate shape.\n" +
             rowsText() + kMethod);
}

void BenchFlags::addTo(CLI::App &app) {
  if (operation)
    addShapesTo(app);
  else
    source.addTo(app);
  addText(app, "--backend", backend, "NAME", "cpu (default), cuda or nccl");
  addText(app, "--impl", impl, "LIST",
          "rows to time, from those listed below (default: a standard set); repeatable")
      ->allow_extra_args(false);
  addText(app, "--graph", graph, "WHICH",
          "whether to replay runs as a graph: no, yes or both (default: both, if the backend "
          "supports graphs)");
  addInteger(app, "--rounds", rounds, "R",
             "number of rounds, each of which times every row once (default: 1)");
  addInteger(app, "--iterations", iterations, "I", "timed runs per row and round (default: 20)");
  addInteger(app, "--bursts", bursts, "B",
             "timed bursts of runs per row, over all rounds; 0 for none (default: 21)");
  addInteger(app, "--row-ms", rowMs, "T",
             "time limit per row, enforced by timing fewer runs (at least 3) and bursts; 0 for no "
             "limit (default: 200)");
  addInteger(app, "--timeout-ms", timeoutMs, "T",
             "give up if there is no progress for this long (default: 60000)");
  addText(app, "--json", json, "OUT.json", "write all rows and samples as JSON");
}

Status BenchFlags::checkShapes() const {
  const bool isListed = !listed.empty();
  for (auto [flag, values] : {std::pair("-m", &m), {"-n", &n}, {"-k", &k}})
    if (values->empty() != isListed)
      return isListed ? badInput("--shapes and {} cannot be used together", flag)
                      : badInput("{} is missing; specify -m, -n and -k, or --shapes", flag);
  for (const std::string &text : listed)
    if (!parseShape(text))
      return badInput("expected --shapes to be MxNxK,..., got '{}'", text);
  for (const BenchShape &shape : shapes())
    for (auto [flag, value] : {std::pair("-m", shape.m), {"-n", shape.n}, {"-k", shape.k}})
      if (value < 1)
        return badInput("expected {} to be at least 1, got {}", flag, value);
  return Status::ok();
}

Status BenchFlags::checkNumbers() {
  for (auto [flag, least, value] : {std::tuple("--ranks", 1, ranks),
                                    {"--rounds", 1, rounds},
                                    {"--iterations", 1, iterations},
                                    {"--bursts", 0, bursts},
                                    {"--row-ms", 0, rowMs},
                                    {"--timeout-ms", 1, timeoutMs}})
    if (value < least)
      return badInput("expected {} to be at least {}, got {}", flag, least, value);
  timeoutMs = boundedTime(std::chrono::milliseconds(timeoutMs)).count();
  return Status::ok();
}

Status BenchFlags::check(const Backend &backendOfName) {
  impl = impl.empty() ? usualRows(*this, backendOfName.transport) : namesIn(impl);
  if (const auto &launch = source.knobs[static_cast<size_t>(Knob::Launch)]) {
    if (!graph.empty())
      return badInput(
          "--launch and --graph both select how runs are issued, so they cannot be used together");
    graph = *launch == "graph" ? "yes" : "no";
  }
  if (graph.empty())
    graph = backendOfName.hasGraphs ? "both" : "no";
  if (graph != "no" && graph != "yes" && graph != "both")
    return badChoice("--graph", graph, {"no", "yes", "both"});
  BRAID_TRY(checkNumbers());
  if (operation) {
    BRAID_TRY(checkShapes());
    if (!dtypeFromName(dtype))
      return badChoice("--dtype", dtype, {"bf16", "f16", "f32", "f64"});
  }
  BRAID_TRY(expectOtherFile("--json", json, source.file));
  const BenchProblem problem = problemOf(shapes().front(), backendOfName);
  bool wantsGraphs = graph != "no";
  for (const std::string &name : impl)
    wantsGraphs |= BRAID_TRY(makeRow(problem, name, false)).isGraphed;
  if (wantsGraphs && !backendOfName.hasGraphs)
    return unsupported("--graph: backend '{}' does not support graphs", backendOfName.name);
  return Status::ok();
}

std::vector<BenchShape> BenchFlags::shapes() const {
  if (!operation)
    return {BenchShape()};
  std::vector<BenchShape> shapes;
  for (const std::string &text : listed)
    shapes.push_back(*parseShape(text));
  for (int64_t eachM : m)
    for (int64_t eachN : n)
      for (int64_t eachK : k)
        shapes.push_back({eachM, eachN, eachK});
  return shapes;
}

std::string BenchFlags::titleOf(const BenchShape &shape) const {
  return operation ? fmt::format("{} x {} x {}", shape.m, shape.n, shape.k) : file.file;
}

BenchProblem BenchFlags::problemOf(const BenchShape &shape, const Backend &backendOfName) const {
  BenchProblem problem = file;
  if (operation) {
    problem.file = operation->name;
    problem.text = operation->fusion(shape, *dtypeFromName(dtype), ranks);
    problem.given.ranks = ranks;
    problem.given.reproducible = source.reproducible;
  }
  problem.given.transport = backendOfName.transport;
  return problem;
}

/// Repeats rows for each launch mode, except rows that set a mode, and `auto`, which chooses one.
std::vector<TimedRow> BenchFlags::rowsOf(const BenchShape &shape,
                                         const Backend &backendOfName) const {
  const BenchProblem problem = problemOf(shape, backendOfName);
  std::vector<TimedRow> rows;
  for (bool isGraphed : {false, true}) {
    if (graph == (isGraphed ? "no" : "yes"))
      continue;
    for (const std::string &name : impl) {
      Result<TimedRow> row = makeRow(problem, name, isGraphed);
      const bool isOnce = llvm::StringRef(name).contains("launch=") || row->isAuto;
      if (!isOnce || !isGraphed || graph == "yes")
        rows.push_back(std::move(*row));
    }
  }
  return rows;
}

} // namespace braid::tools
