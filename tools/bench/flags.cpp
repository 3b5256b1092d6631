//===- tools/bench/flags.cpp - what `braid bench gather-matmul` was asked for -----------------===//

#include "tools/bench/flags.h"

#include "api/gather_timer.h"
#include "tools/command.h"

#include <fmt/format.h>

namespace braid::tools {
namespace {

constexpr const char *kFooter = R"(
C[m, n] = A[m, k] B[k, n], with m / ranks rows of A on each rank and n columns of B on every rank.
Every combination of -m, -n and -k is a shape, or --shapes has them. A row is one way to do it, or
one of its limits:

  matmul       the product alone, of A as if it had been gathered
  pieces       the product alone, cut as a pipeline cuts it: what the cutting costs
  gather       the gather alone
  beside       both at once, neither waiting for the other: what the machine leaves of them
  none         gather, then one product
  auto         what braid run --schedule auto chooses, graph or not; once a shape
  pairwise, doubling, hop, burst, fused   see braid run --schedule

each with ;protocol=get|put ;chunks=S (of a rank's block) ;taper=T ;wave=R ;streams=K
;transfers=each|shared ;copies=engine|kernel ;signals=memory|kernel. With --against torch there are
also, as far as PyTorch can do them here:

  torch/matmul       torch.matmul
  torch/gather       all_gather_into_tensor (NCCL)
  torch/gather_copy  copies from symmetric memory (copy engines)
  torch/sequential   all_gather_into_tensor, then torch.matmul
  torch/fused        symm_mem.fused_all_gather_matmul, eagerly in any case

All rows of a shape are timed in turns: in each round every row has its runs, those of PyTorch
between ours, and every other round goes backwards. Times are microseconds: wall clock from a
barrier on, the maximum over ranks; a row's time is the median of its rounds' medians, beside the
10th and 90th of a hundred of all its runs. Large products are limited by power, and a GPU that
idled is faster for up to 100 ms than one that did not, so their rows run untimed for --settle-ms
first, whatever was before them. For the same reason all rows rest for --rest-us before each run:
PyTorch's cannot begin at once, and a GPU that has rested is faster.

  E         the larger of the two limits over the time: 1 means that nothing is lost. The limits are
            the fastest product alone and the fastest gather alone, whoever is faster at it. Gathers
            alone copy the own block, too, or pull, so beside can do better
  speed-up  the fastest of none and torch/sequential, over the time
  hidden    how much of the time which that takes longer than the product alone is saved

With --resume, rows that OUT.json has are not timed again; it is written after every shape, so that
a grid can be measured in pieces.

  braid bench gather-matmul -m 8192 -n 8192 -k 8192 --ranks 4 --backend cuda --against torch
  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --impl 'matmul,gather,pairwise;chunks=4'
  braid bench gather-matmul -m 512,2048 -n 512,2048 -k 512,2048 --json grid.json --resume \
    --time-limit 300)";

Status atLeast(int64_t least, const char *flag, int64_t value) {
  return value >= least ? Status::ok()
                        : Status(StatusCode::BadInput, fmt::format("expected {} to be at least {}, "
                                                                   "got {}",
                                                                   flag, least, value));
}

/// "8192x7168x4096"
std::optional<GatherShape> parseShape(llvm::StringRef text) {
  GatherShape shape;
  auto [m, rest] = text.split('x');
  auto [n, k] = rest.split('x');
  if (m.getAsInteger(10, shape.m) || n.getAsInteger(10, shape.n) || k.getAsInteger(10, shape.k))
    return std::nullopt;
  return shape;
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
      return Status(StatusCode::BadInput,
                    fmt::format("expected --shapes to be MxNxK,..., got '{}'", text));
  for (const GatherShape &shape : flags.shapes())
    for (auto [flag, value] : {std::pair("-m", shape.m), {"-n", shape.n}, {"-k", shape.k}})
      if (Status status = atLeast(1, flag, value); !status.isOk())
        return status;
  return Status::ok();
}

} // namespace

void BenchFlags::addTo(CLI::App &app) {
  addInteger(app, "-m", m, "rows of A and C")->delimiter(',')->type_name("M,...");
  addInteger(app, "-n", n, "columns of B and C, on every rank")->delimiter(',')->type_name("N,...");
  addInteger(app, "-k", k, "columns of A, rows of B")->delimiter(',')->type_name("K,...");
  app.add_option("--shapes", listed, "these shapes, instead of all of -m, -n and -k")
      ->delimiter(',')
      ->type_name("MxNxK,...");
  app.add_option("--dtype", dtype, "bf16 (default), f16, f32 or f64")->type_name("TYPE");
  addInteger(app, "--ranks", ranks, "ranks, a process each (default 2)")->type_name("N");
  app.add_option("--backend", backend, "cpu (default) or cuda")->type_name("NAME");
  app.add_option("--impl", impl, "which rows (default: all)")->delimiter(',')->type_name("LIST");
  app.add_option("--graph", graph,
                 "replayed as a graph: no, yes or both (default: both, if the backend can)")
      ->type_name("WHICH");
  app.add_option("--against", against, "also time a rival's rows: torch")->type_name("NAME");
  app.add_option("--python", python, "the Python that has PyTorch (default python3)")
      ->type_name("FILE");
  addInteger(app, "--rounds", rounds,
             "how often each row has its turn (default: 5 with --against, else 1)")
      ->type_name("R");
  addInteger(app, "--iterations", iterations, "timed runs of a row, a round (default 20)")
      ->type_name("I");
  addInteger(app, "--warm-up", warmUp,
             "runs before them (default 5; from the second round on at most 2)")
      ->type_name("I");
  addInteger(app, "--row-ms", rowMs,
             "fewer runs, but 3 or more, so that they take about this long (default 200; "
             "0: no limit)")
      ->type_name("T");
  addInteger(app, "--settle-ms", settleMs,
             "at least as many runs before the timed ones as take this long "
             "(default 100 on GPUs above 5e10 operations a row, else 0)")
      ->type_name("T");
  addInteger(app, "--rest-us", restUs, "how long a device rests before each run (default 30)")
      ->type_name("T");
  addInteger(app, "--timeout-ms", timeoutMs,
             "a row without progress for this long has failed (default 60000)")
      ->type_name("T");
  addInteger(app, "--time-limit", timeLimit,
             "end after this many seconds, with all shapes that are complete then")
      ->type_name("S");
  app.add_option("--csv", csv, "write the rows as CSV; the first columns are those of DDLB")
      ->type_name("OUT.csv");
  app.add_option("--json", json, "write the rows with all samples as JSON")->type_name("OUT.json");
  app.add_flag("--resume", resumes, "go on with what OUT.json has");
  app.add_flag("--retry-failed", retriesFailed, "with --resume: time rows again that failed");
  app.add_option("--label", labels, "also in the JSON, such as commit=1a2b3c")
      ->type_name("NAME=VALUE");
  app.add_option("--torch-rows", torchRows)->group("");
  addInteger(app, "--job-mib", jobMib, "")->group("");
  app.footer(kFooter);
}

Status BenchFlags::check(bool hasGraphs) {
  if (graph.empty())
    graph = hasGraphs ? "both" : "no";
  if (graph != "no" && graph != "yes" && graph != "both")
    return badChoice("--graph", graph, {"no", "yes", "both"});
  if (!against.empty() && against != "torch")
    return badChoice("--against", against, {"torch"});
  if (!rounds)
    rounds = against.empty() ? 1 : 5;
  if (!settleMs && backend == "cpu")
    settleMs = 0;
  for (auto [flag, least, value] : {std::tuple("--ranks", 1, ranks),
                                    {"--rounds", 1, *rounds},
                                    {"--iterations", 1, iterations},
                                    {"--warm-up", 0, warmUp},
                                    {"--row-ms", 0, rowMs},
                                    {"--settle-ms", 0, settleMs.value_or(0)},
                                    {"--rest-us", 0, restUs},
                                    {"--time-limit", 0, timeLimit},
                                    {"--timeout-ms", 1, timeoutMs}})
    if (Status status = atLeast(least, flag, value); !status.isOk())
      return status;
  constexpr int64_t kMostRestUs = 10000; // nobody looks at the job meanwhile
  if (restUs > kMostRestUs)
    return Status(StatusCode::BadInput,
                  fmt::format("expected --rest-us to be at most {}, got {}", kMostRestUs, restUs));
  if (Status status = checkShapes(*this); !status.isOk())
    return status;
  if ((resumes || retriesFailed) && (json.empty() || !resumes))
    return Status(StatusCode::BadInput, "expected --json OUT.json with --resume, and --resume with "
                                        "--retry-failed");
  if (csv == "-" && json == "-")
    return Status(StatusCode::BadInput, "expected one of --csv and --json to be -, got both");
  Result<DType> type = elementType();
  if (!type)
    return type.status();
  for (const GatherShape &shape : shapes())
    for (const std::string &name : impl)
      if (Result<GatherRow> row = makeGatherRow(name, shape, *type, ranks, false); !row)
        return row.status();
  return Status::ok();
}

std::vector<GatherShape> BenchFlags::shapes() const {
  std::vector<GatherShape> shapes;
  for (const std::string &text : listed)
    shapes.push_back(*parseShape(text));
  for (int64_t eachM : m)
    for (int64_t eachN : n)
      for (int64_t eachK : k)
        shapes.push_back({eachM, eachN, eachK});
  return shapes;
}

int64_t BenchFlags::settlingMs(const GatherShape &shape) const {
  return settleMs.value_or(static_cast<int64_t>(settlingUs(shape) / 1000));
}

Result<DType> BenchFlags::elementType() const {
  if (std::optional<DType> type = dtypeFromName(dtype))
    return *type;
  return badChoice("--dtype", dtype, {"bf16", "f16", "f32", "f64"});
}

std::vector<bool> BenchFlags::graphChoices() const {
  if (graph == "both")
    return {false, true};
  return {graph == "yes"};
}

void BenchRankFlags::addTo(CLI::App &app) {
  app.add_option("--dtype", dtype)->required();
  app.add_option("--backend", backend)->required();
  app.add_option("--graph", graph)->required();
  addInteger(app, "--timeout-ms", timeoutMs, "")->required();
  app.add_option("--requests", requests)->required();
  app.add_option("--answers", answers)->required();
}

} // namespace braid::tools
