//===- tools/bench/flags.cpp - what `braid bench` was asked for -------------------------------===//

#include "tools/bench/flags.h"

#include "api/timing/plan_timer.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

constexpr const char *kRows = "\neach with ;KNOB=VALUE, which are the flags of braid run. A LIST "
                              "with a schedule for a stage,\n"
                              "as in --impl 'H=ring,Y=pairwise;chunks=2', is one row.";

constexpr const char *kMethod = R"(
All rows of a shape are timed in turns: in each round every row has its runs, those of a rival
between ours, and every other round goes backwards. Times are microseconds: wall clock from a
barrier on, the maximum over ranks; a row's time is the median of its rounds' medians, beside the
10th and 90th of a hundred of all its runs. Large GEMMs are limited by power, and a GPU that
idled is faster for up to 100 ms than one that did not, so their rows run untimed for --warm-up-ms
first, whatever was before them. For the same reason all rows idle for --idle-gap-us before each
run: PyTorch's cannot begin at once, and a GPU that has idled is faster.

  burst us  a run where runs follow one another, as layers of a model do: those of some 10 ms are
            issued back to back, between two events on the GPU; the median of --bursts such bursts
  E         the larger of the two limits over the time: 1 means that nothing is lost. The limits are
            the fastest GEMMs alone and the fastest transfers alone, whoever is faster at it.
            A gather alone copies the own block, too, or pulls, so both at once can do better
  speed-up  the fastest of what does one part after the other, over the time
  hidden    how much of the time which that takes longer than the GEMMs alone is saved

Which row is best, how far auto is behind it and how a rival's compares is judged by bursts, as auto
judges, where all rows that do all the work have bursts, and else by single runs.

With --resume, rows that OUT.json has are not timed again; it is written after every shape, so that
a grid can be measured in pieces.
)";

std::string listOf(const std::vector<RowType> &types) {
  size_t width = std::string("a schedule").size();
  for (const RowType &type : types)
    width = std::max(width, type.name.size());
  std::string text = "\n";
  for (const RowType &type : types)
    text += fmt::format("  {:<{}}  {}\n", type.name, width, type.help);
  return text;
}

std::string scheduleLine() { return "  a schedule  see braid run --schedule\n"; }

std::string footerOf(const Operation &operation) {
  return "\n" + operation.help +
         "\nEvery combination of -m, -n and -k is a shape, or --shapes has them. A row is one way "
         "to "
         "do it, or\none of its limits:\n" +
         listOf(operation.rows) + scheduleLine() + kRows +
         " With --against torch there are\nalso, as far as PyTorch can do them here:\n" +
         listOf(operation.rivals) + kMethod + "\n" + operation.examples;
}

/// A list whose parts are for stages is one row.
std::vector<std::string> rowsOf(const std::vector<std::string> &lists) {
  std::vector<std::string> rows;
  for (const std::string &list : lists) {
    llvm::SmallVector<llvm::StringRef, 8> names = {list};
    if (!namesStages(list)) {
      names.clear();
      llvm::StringRef(list).split(names, ',');
    }
    for (llvm::StringRef name : names)
      rows.push_back(name.str());
  }
  return rows;
}

/// Messages have no protocol, and collectives of their own.
std::vector<std::string> usualRows(const Operation &operation, Transport transport) {
  std::vector<std::string> rows = operation.standard;
  if (transport == Transport::PeerMemory)
    return rows;
  llvm::erase_if(rows,
                 [](const std::string &row) { return row.find("protocol=") != std::string::npos; });
  if (operation.hasShapes)
    rows.push_back("collective");
  return rows;
}

Status atLeast(int64_t least, const char *flag, int64_t value) {
  return value >= least ? Status::ok()
                        : badInput("expected {} to be at least {}, got {}", flag, least, value);
}

/// Either a list of shapes, or all of -m, -n and -k.
Status checkShapes(const BenchFlags &flags) {
  const bool isListed = !flags.listed.empty();
  for (auto [flag, values] : {std::pair("-m", &flags.m), {"-n", &flags.n}, {"-k", &flags.k}})
    if (values->empty() != isListed)
      return Status(StatusCode::BadInput,
                    isListed ? fmt::format("expected --shapes or {}, got both", flag)
                             : fmt::format("expected {}, or --shapes instead of -m, -n and -k: "
                                           "got neither",
                                           flag));
  for (const std::string &text : flags.listed)
    if (!parseShape(text))
      return badInput("expected --shapes to be MxNxK,..., got '{}'", text);
  for (const BenchShape &shape : flags.shapes())
    for (auto [flag, value] : {std::pair("-m", shape.m), {"-n", shape.n}, {"-k", shape.k}})
      BRAID_TRY(atLeast(1, flag, value));
  return Status::ok();
}

} // namespace

std::optional<BenchShape> parseShape(llvm::StringRef text) {
  BenchShape shape;
  auto [m, rest] = text.split('x');
  auto [n, k] = rest.split('x');
  if (m.getAsInteger(10, shape.m) || n.getAsInteger(10, shape.n) || k.getAsInteger(10, shape.k))
    return std::nullopt;
  return shape;
}

void BenchFlags::addShapesTo(CLI::App &app) {
  const auto &[rows, columns, contracted] = operation.extents;
  addInteger(app, "-m", m, "M,...", rows)->delimiter(',');
  addInteger(app, "-n", n, "N,...", columns)->delimiter(',');
  addInteger(app, "-k", k, "K,...", contracted)->delimiter(',');
  addText(app, "--shapes", listed, "MxNxK,...", "these shapes, instead of all of -m, -n and -k")
      ->delimiter(',');
  addText(app, "--dtype", dtype, "TYPE", "bf16 (default), f16, f32 or f64");
  if (operation.hasPartials)
    addText(app, "--partial", partial, "TYPE",
            "what partial results are sent as: the type of C (default), or f32");
  addInteger(app, "--ranks", ranks, "N", "ranks, a process each (default 2)");
  addReproducible(app, source.reproducible);
  addText(app, "--against", against, "NAME", "also time a rival's rows: torch");
  addText(app, "--python", python, "FILE", "the Python that has PyTorch (default python3)");
  app.add_option("--torch-rows", torchRows)->group("");
  app.footer(footerOf(operation));
}

void BenchFlags::addTo(CLI::App &app) {
  if (operation.hasShapes)
    addShapesTo(app);
  else
    source.addTo(app);
  addText(app, "--backend", backend, "NAME", "cpu (default), cuda or nccl");
  addText(app, "--impl", impl, "LIST",
          "which rows (default: the usual ones), or one with schedules for stages; repeatable")
      ->allow_extra_args(false);
  addText(app, "--graph", graph, "WHICH",
          "replayed as a graph: no, yes or both (default: both, if the backend can)");
  addInteger(app, "--rounds", rounds, "R",
             "how often each row has its turn (default: 5 with --against, else 1)");
  addInteger(app, "--iterations", iterations, "I", "timed runs of a row, a round (default 20)");
  addInteger(app, "--warm-up", warmUp, "I",
             "runs before them (default 5; from the second round on at most 2)");
  addInteger(app, "--bursts", bursts, "B",
             "bursts of runs of a row, over all rounds (default 21; 0: none)");
  addInteger(app, "--row-ms", rowMs, "T",
             "fewer runs, but 3 or more, so that they take about this long, and fewer bursts "
             "(default 200; 0: no limit)");
  addInteger(app, "--warm-up-ms", warmUpMs, "T",
             "at least as many runs before the timed ones as take this long "
             "(default 100 on GPUs above 5e10 operations a row, else 0)");
  addInteger(app, "--idle-gap-us", idleGapUs, "T",
             "how long a device idles before each run (default 30)");
  addInteger(app, "--timeout-ms", timeoutMs, "T",
             "a row without progress for this long has failed (default 60000)");
  addInteger(app, "--time-limit", timeLimit, "S",
             "end after this many seconds, with all shapes that are complete then");
  addText(app, "--csv", csv, "OUT.csv",
          "write the rows as CSV; the first columns are those of DDLB");
  addText(app, "--json", json, "OUT.json", "write the rows with all samples as JSON");
  app.add_flag("--resume", resumes, "go on with what OUT.json has");
  app.add_flag("--retry-failed", retriesFailed, "with --resume: time rows again that failed");
  addText(app, "--label", labels, "NAME=VALUE", "also in the JSON, such as commit=1a2b3c")
      ->allow_extra_args(false);
  addInteger(app, "--job-mib", jobMib, "MIB", "")->group("");
}

Status BenchFlags::check(const Backend &backendOfName) {
  impl = impl.empty() ? usualRows(operation, backendOfName.transport) : rowsOf(impl);
  if (const auto &launch = source.knobs[static_cast<size_t>(Knob::Launch)]) {
    if (!graph.empty())
      return badInput("expected --launch or --graph, which say how runs are issued, got both");
    graph = *launch == "graph" ? "yes" : "no";
  }
  if (graph.empty())
    graph = backendOfName.hasGraphs ? "both" : "no";
  if (graph != "no" && graph != "yes" && graph != "both")
    return badChoice("--graph", graph, {"no", "yes", "both"});
  if (!against.empty() && against != "torch")
    return badChoice("--against", against, {"torch"});
  if (!rounds)
    rounds = against.empty() ? 1 : 5;
  if (!warmUpMs && !usesGpus())
    warmUpMs = 0;
  for (auto [flag, least, value] : {std::tuple("--ranks", 1, ranks),
                                    {"--rounds", 1, *rounds},
                                    {"--iterations", 1, iterations},
                                    {"--warm-up", 0, warmUp},
                                    {"--bursts", 0, bursts},
                                    {"--row-ms", 0, rowMs},
                                    {"--warm-up-ms", 0, warmUpMs.value_or(0)},
                                    {"--idle-gap-us", 0, idleGapUs},
                                    {"--time-limit", 0, timeLimit},
                                    {"--timeout-ms", 1, timeoutMs}})
    BRAID_TRY(atLeast(least, flag, value));
  timeoutMs = boundedTime(std::chrono::milliseconds(timeoutMs)).count();
  timeLimit = std::min<int64_t>(timeLimit, kLongestTime.count() / 1000);
  constexpr int64_t kMostIdleGapUs = 10000; // nobody looks at the job meanwhile
  if (idleGapUs > kMostIdleGapUs)
    return badInput("expected --idle-gap-us to be at most {}, got {}", kMostIdleGapUs, idleGapUs);
  BRAID_TRY(operation.hasShapes ? checkShapes(*this) : Status::ok());
  BRAID_TRY(expectTwoFiles({"--csv", csv}, {"--json", json}));
  BRAID_TRY(expectOtherFile("--csv", csv, source.file));
  BRAID_TRY(expectOtherFile("--json", json, source.file));
  if ((resumes || retriesFailed) && (json.empty() || !resumes))
    return badInput("expected --json OUT.json with --resume, and --resume with --retry-failed");
  for (auto label = labels.begin(); label != labels.end(); ++label) {
    const llvm::StringRef name = llvm::StringRef(*label).split('=').first;
    if (name.empty() || name.size() == label->size())
      return badInput("expected --label NAME=VALUE, got '{}'", *label);
    for (auto other = labels.begin(); other != label; ++other)
      if (llvm::StringRef(*other).split('=').first == name)
        return badInput("expected one --label {}=VALUE, got another one, '{}'", name.str(), *label);
  }
  if (csv == "-" && json == "-")
    return badInput("expected one of --csv and --json to be -, got both");
  BenchTypes types = BRAID_TRY(this->types());
  for (const BenchShape &shape : shapes())
    for (const std::string &name : impl)
      if (Result<TimedRow> row = operation.makeRow(name, shape, types, ranks, false);
          row.status().code() == StatusCode::BadInput) // else it is the row's failure
        return row.status();
  return Status::ok();
}

std::vector<BenchShape> BenchFlags::shapes() const {
  if (!operation.hasShapes)
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

int64_t BenchFlags::warmUpTimeMs(const BenchShape &shape) const {
  return warmUpMs.value_or(static_cast<int64_t>(warmUpTimeUs(operation.flops(shape)) / 1000));
}

Result<BenchTypes> BenchFlags::types() const {
  const std::optional<DType> element = dtypeFromName(dtype);
  if (!element)
    return badChoice("--dtype", dtype, {"bf16", "f16", "f32", "f64"});
  if (partial.empty())
    return BenchTypes(*element);
  const std::optional<DType> sent = dtypeFromName(partial);
  if (!sent || !isPartialType(*sent, *element))
    return badChoice("--partial", partial,
                     dtype == "f64" || dtype == "f32" ? std::vector<std::string>{dtype}
                                                      : std::vector<std::string>{dtype, "f32"});
  return BenchTypes(*element, *sent);
}

std::vector<bool> BenchFlags::graphChoices() const {
  if (graph == "both")
    return {false, true};
  return {graph == "yes"};
}

} // namespace braid::tools
