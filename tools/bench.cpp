//===- tools/bench.cpp - `braid bench` --------------------------------------------------------===//
//
// The command starts one job of processes for each shape, which times row after row and writes each
// into a file as it is done. If a row fails or hangs, it is that row's result, and another job goes
// on with the next one.
//
//===----------------------------------------------------------------------------------------===//

#include "api/gather_bench.h"
#include "api/job_rank.h"
#include "api/launch.h"
#include "api/run.h"
#include "tools/command.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <fstream>

namespace braid::tools {
namespace {

using Json = nlohmann::json;

struct BenchFlags {
  std::vector<int64_t> m, n, k;
  std::string dtype = "bf16";
  int64_t ranks = 2;
  std::string backend = "cpu";
  std::vector<std::string> impl = {"matmul", "gather",   "gather;protocol=put",
                                   "none",   "pairwise", "pairwise;protocol=put",
                                   "hop"};
  std::string graph; ///< empty: what the backend can do
  int64_t iterations = 20, warmUp = 5;
  int64_t timeoutMs = 60000;
  std::string csv, json;
  std::vector<std::string> labels;
  // Of the ranks that the command starts itself.
  std::string rows;
  int64_t firstRow = 0;
};

constexpr const char *kFooter = R"(
C[m, n] = A[m, k] B[k, n], with m / ranks rows of A on each rank and n columns of B on every rank.
Every combination of -m, -n and -k is a shape. A row is one way to do it, or one of its limits:

  matmul       the product alone, of A as if it had been gathered
  gather       the gather alone
  none         gather, then one product
  pairwise, hop   overlapped, see braid run --schedule

each with ;protocol=get|put ;chunks=S (of a rank's block) ;taper=T ;streams=K. Times are
microseconds: wall clock from a barrier on, the maximum over ranks, median of the iterations and
their 10th and 90th of a hundred. E is the larger of the two limits over the time: 1 means that
nothing is lost.

  braid bench gather-matmul -m 8192 -n 8192 -k 8192 --ranks 4 --backend cuda
  braid bench gather-matmul -m 4096 -n 4096 -k 4096 --impl 'matmul,gather,pairwise;chunks=4')";

/// One line of the table.
struct Row {
  GatherShape shape;
  std::string name;
  bool isGraphed = false;
  std::vector<double> samples; ///< microseconds
  std::string failure;         ///< empty: it was timed
};

Json toJson(const Row &row) {
  Spread spread = spreadOf(row.samples);
  Json json = {{"m", row.shape.m},
               {"n", row.shape.n},
               {"k", row.shape.k},
               {"implementation", row.name},
               {"graph", row.isGraphed}};
  if (!row.failure.empty())
    json["failure"] = row.failure;
  else
    json.update({{"median_us", spread.median},
                 {"p10_us", spread.low},
                 {"p90_us", spread.high},
                 {"samples_us", row.samples}});
  return json;
}

std::vector<GatherShape> shapesOf(const BenchFlags &flags) {
  std::vector<GatherShape> shapes;
  for (int64_t m : flags.m)
    for (int64_t n : flags.n)
      for (int64_t k : flags.k)
        shapes.push_back({m, n, k});
  return shapes;
}

Result<DType> dtypeOf(const BenchFlags &flags) {
  if (std::optional<DType> dtype = dtypeFromName(flags.dtype))
    return *dtype;
  return badChoice("--dtype", flags.dtype, {"bf16", "f16", "f32", "f64"});
}

/// All rows of a shape, in the order in which they are timed.
Result<std::vector<GatherRow>> rowsOf(const BenchFlags &flags, const GatherShape &shape) {
  Result<DType> dtype = dtypeOf(flags);
  if (!dtype)
    return dtype.status();
  if (flags.graph != "no" && flags.graph != "yes" && flags.graph != "both")
    return badChoice("--graph", flags.graph, {"no", "yes", "both"});
  std::vector<GatherRow> rows;
  for (const std::string &name : flags.impl)
    for (bool isGraphed : {false, true}) {
      if (flags.graph != "both" && (flags.graph == "yes") != isGraphed)
        continue;
      Result<GatherRow> row = makeGatherRow(name, shape, *dtype, flags.ranks, isGraphed);
      if (!row)
        return row.status();
      rows.push_back(std::move(*row));
    }
  return rows;
}

Status checkFlags(const BenchFlags &flags) {
  auto positive = [](const char *flag, int64_t value) {
    return value >= 1 ? Status::ok()
                      : Status(StatusCode::BadInput,
                               fmt::format("expected {} to be at least 1, got {}", flag, value));
  };
  for (auto [flag, value] : {std::pair("--ranks", flags.ranks),
                             {"--iterations", flags.iterations},
                             {"--timeout-ms", flags.timeoutMs}})
    if (Status status = positive(flag, value); !status.isOk())
      return status;
  for (auto [flag, values] : {std::pair("-m", &flags.m), {"-n", &flags.n}, {"-k", &flags.k}})
    for (int64_t value : *values)
      if (Status status = positive(flag, value); !status.isOk())
        return status;
  for (const GatherShape &shape : shapesOf(flags))
    if (Result<std::vector<GatherRow>> rows = rowsOf(flags, shape); !rows)
      return rows.status();
  return Status::ok();
}

// -- One rank. --

Status timeRows(const BenchFlags &flags, const Backend &backend, JobRank &rank) {
  GatherShape shape{flags.m.front(), flags.n.front(), flags.k.front()};
  Result<std::vector<GatherRow>> rows = rowsOf(flags, shape);
  if (!rows)
    return rows.status();
  if (!backend.join)
    return Status(StatusCode::Unsupported,
                  "--backend " + backend.name + ": its ranks cannot be processes");
  ClusterOptions options{.ranks = flags.ranks,
                         .timeout = std::chrono::milliseconds(flags.timeoutMs)};
  Result<std::unique_ptr<Cluster>> cluster = backend.join(options, rank.takeMember());
  if (!cluster)
    return cluster.status();
  const int64_t number = rank.place().rank;
  if (number == 0)
    std::ofstream(flags.rows, std::ios::app)
        << Json((*cluster)->device(number).description()).dump() << std::endl;
  GatherTimer timer(**cluster, [&] { return rank.memory().spinUntilAllCome(number); });
  for (size_t i = static_cast<size_t>(flags.firstRow); i < rows->size(); ++i) {
    const GatherRow &row = (*rows)[i];
    Result<std::vector<double>> samples = timer.time(row, {flags.warmUp, flags.iterations});
    if (!samples)
      return samples.status();
    if (number != 0)
      continue;
    llvm::errs() << fmt::format("braid: {} x {} x {}  {}{}: {:.1f} us\n", shape.m, shape.n, shape.k,
                                row.name, row.isGraphed ? ", graph" : "",
                                spreadOf(*samples).median);
    std::ofstream(flags.rows, std::ios::app) << Json(*samples).dump() << std::endl;
  }
  return (*cluster)->transport(number).commit();
}

int rankCommand(const BenchFlags &flags, const Backend &backend, const Place &place) {
  Result<std::unique_ptr<JobRank>> rank =
      JobRank::join(place, {.timeout = std::chrono::milliseconds(flags.timeoutMs),
                            .meeting = launchersMeeting(processEnvironment())});
  if (!rank)
    return static_cast<int>(rank.status().code());
  Status status = timeRows(flags, backend, **rank);
  if (!status.isOk())
    status = (*rank)->fail(status);
  return static_cast<int>(status.code());
}

// -- The command. --

/// The command line of the ranks.
std::vector<std::string> rankArguments(const BenchFlags &flags, const GatherShape &shape,
                                       const std::string &file, size_t firstRow) {
  return {"braid",
          "bench",
          "gather-matmul",
          "-m",
          std::to_string(shape.m),
          "-n",
          std::to_string(shape.n),
          "-k",
          std::to_string(shape.k),
          "--dtype",
          flags.dtype,
          "--ranks",
          std::to_string(flags.ranks),
          "--backend",
          flags.backend,
          "--impl",
          llvm::join(flags.impl, ","),
          "--graph",
          flags.graph,
          "--iterations",
          std::to_string(flags.iterations),
          "--warm-up",
          std::to_string(flags.warmUp),
          "--timeout-ms",
          std::to_string(flags.timeoutMs),
          "--rows",
          file,
          "--first-row",
          std::to_string(firstRow)};
}

/// A file for the ranks to write to, gone with this object.
class RowsFile {
public:
  static Result<std::unique_ptr<RowsFile>> create() {
    const char *folder = std::getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/braid-bench-XXXXXX";
    int descriptor = mkstemp(path.data());
    if (descriptor < 0)
      return Status(StatusCode::Unsupported, "cannot make a file like " + path);
    close(descriptor);
    return std::unique_ptr<RowsFile>(new RowsFile(path));
  }
  ~RowsFile() { unlink(path_.c_str()); }
  RowsFile(const RowsFile &) = delete;
  const std::string &path() const { return path_; }

  /// What the ranks run on, in their words.
  std::string device() const {
    std::ifstream file(path_);
    std::string line;
    std::getline(file, line);
    Json text = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    return text.is_string() ? text.get<std::string>() : "";
  }

  /// What has been timed so far.
  std::vector<std::vector<double>> read() const {
    std::vector<std::vector<double>> rows;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      Json samples = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (samples.is_array())
        rows.push_back(samples.get<std::vector<double>>());
    }
    return rows;
  }

private:
  explicit RowsFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

Result<std::vector<Row>> measureShape(const BenchFlags &flags, const GatherShape &shape,
                                      std::string &device) {
  Result<std::vector<GatherRow>> wanted = rowsOf(flags, shape);
  if (!wanted)
    return wanted.status();
  Result<std::unique_ptr<RowsFile>> file = RowsFile::create();
  if (!file)
    return file.status();
  std::vector<Row> rows;
  while (rows.size() < wanted->size()) {
    const size_t before = (*file)->read().size();
    LaunchOptions options;
    options.ranks = flags.ranks;
    options.arguments = rankArguments(flags, shape, (*file)->path(), rows.size());
    options.joinTimeout = std::chrono::milliseconds(flags.timeoutMs);
    Result<LaunchReport> report = launch(options);
    if (!report)
      return report.status();
    if (report->signal != 0)
      return Status(StatusCode::PeerFailed, "interrupted");
    device = (*file)->device();
    std::vector<std::vector<double>> timed = (*file)->read();
    for (size_t i = before; i < timed.size(); ++i) {
      const GatherRow &row = (*wanted)[rows.size()];
      rows.push_back({shape, row.name, row.isGraphed, std::move(timed[i]), ""});
    }
    if (report->status.isOk() || rows.size() == wanted->size())
      continue;
    const GatherRow &row = (*wanted)[rows.size()];
    rows.push_back({shape, row.name, row.isGraphed, {}, firstLine(report->status.message())});
  }
  return rows;
}

/// The larger of the two limits: the fastest product alone and the fastest gather alone.
double limitOf(const std::vector<Row> &rows) {
  double product = 0, gather = 0;
  for (const Row &row : rows) {
    if (row.samples.empty())
      continue;
    double time = spreadOf(row.samples).median;
    if (row.name == "matmul")
      product = product == 0 ? time : std::min(product, time);
    if (llvm::StringRef(row.name).split(';').first == "gather")
      gather = gather == 0 ? time : std::min(gather, time);
  }
  return product == 0 || gather == 0 ? 0 : std::max(product, gather);
}

bool isLimit(const Row &row) {
  return row.name == "matmul" || llvm::StringRef(row.name).split(';').first == "gather";
}

void printTable(const std::vector<Row> &rows) {
  const GatherShape &shape = rows.front().shape;
  llvm::outs() << fmt::format("{} x {} x {}\n  {:<32}{:>7}{:>12}{:>12}{:>12}{:>10}{:>7}\n", shape.m,
                              shape.n, shape.k, "row", "graph", "median us", "p10", "p90",
                              "TFLOP/s", "E");
  const double limit = limitOf(rows);
  const double flops = 2.0 * double(shape.m) * double(shape.n) * double(shape.k);
  for (const Row &row : rows) {
    std::string line = fmt::format("  {:<32}{:>7}", row.name, row.isGraphed ? "yes" : "no");
    if (!row.failure.empty()) {
      llvm::outs() << line << "  failed: " << row.failure << "\n";
      continue;
    }
    Spread spread = spreadOf(row.samples);
    bool multiplies = llvm::StringRef(row.name).split(';').first != "gather";
    line += fmt::format("{:>12.1f}{:>12.1f}{:>12.1f}", spread.median, spread.low, spread.high);
    line += multiplies ? fmt::format("{:>10.1f}", flops / spread.median * 1e-6)
                       : fmt::format("{:>10}", "-");
    line += limit > 0 && !isLimit(row) ? fmt::format("{:>7.3f}", limit / spread.median)
                                       : fmt::format("{:>7}", "-");
    llvm::outs() << line << "\n";
  }
  llvm::outs().flush();
}

Status writeText(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  return file ? Status::ok() : Status(StatusCode::BadInput, "cannot write " + path);
}

std::string csvText(const BenchFlags &flags, const std::vector<Row> &rows) {
  std::string text = "implementation,graph,m,n,k,dtype,ranks,backend,median_us,p10_us,p90_us,"
                     "failure\n";
  for (const Row &row : rows) {
    Spread spread = spreadOf(row.samples);
    std::string failure = row.failure;
    std::replace(failure.begin(), failure.end(), '"', '\'');
    text += fmt::format("\"{}\",{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},\"{}\"\n", row.name,
                        row.isGraphed ? "yes" : "no", row.shape.m, row.shape.n, row.shape.k,
                        flags.dtype, flags.ranks, flags.backend, spread.median, spread.low,
                        spread.high, failure);
  }
  return text;
}

std::string today() {
  std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

Status writeResults(const BenchFlags &flags, const std::vector<Row> &rows,
                    const std::string &device) {
  if (!flags.csv.empty())
    if (Status status = writeText(flags.csv, csvText(flags, rows)); !status.isOk())
      return status;
  if (flags.json.empty())
    return Status::ok();
  Json list = Json::array();
  for (const Row &row : rows)
    list.push_back(toJson(row));
  Json json = {{"operation", "gather-matmul"},
               {"dtype", flags.dtype},
               {"ranks", flags.ranks},
               {"backend", flags.backend},
               {"iterations", flags.iterations},
               {"warm_up", flags.warmUp},
               {"date", today()},
               {"device", device},
               {"version", BRAID_VERSION},
               {"rows", std::move(list)}};
  for (const std::string &label : flags.labels)
    json[label.substr(0, label.find('='))] =
        label.find('=') == std::string::npos ? "" : label.substr(label.find('=') + 1);
  return writeText(flags.json, json.dump(1) + "\n");
}

int benchCommand(BenchFlags flags) {
  BackendRegistry registry = builtinBackends();
  const Backend *backend = registry.find(flags.backend);
  if (!backend)
    return report(badChoice("--backend", flags.backend, {"cpu", "cuda"}));
  if (flags.graph.empty())
    flags.graph = backend->hasGraphs ? "both" : "no";
  if (Status status = checkFlags(flags); !status.isOk())
    return report(status);
  if (flags.graph != "no" && !backend->hasGraphs)
    return report(Status(StatusCode::Unsupported,
                         fmt::format("--graph: backend '{}' has no graphs", backend->name)));
  if (!flags.rows.empty()) {
    Result<std::optional<Place>> place = findPlace(processEnvironment());
    if (!place || !*place)
      return report(Status(StatusCode::BadInput, "--rows: expected to be one rank of a job"));
    return rankCommand(flags, *backend, **place);
  }
  std::vector<Row> all;
  bool hasFailed = false;
  std::string device;
  for (const GatherShape &shape : shapesOf(flags)) {
    Result<std::vector<Row>> rows = measureShape(flags, shape, device);
    if (!rows)
      return report(rows.status());
    printTable(*rows);
    for (Row &row : *rows) {
      hasFailed |= !row.failure.empty();
      all.push_back(std::move(row));
    }
    if (Status status = writeResults(flags, all, device);
        !status.isOk()) // after each: nothing is lost
      return report(status);
  }
  return hasFailed ? static_cast<int>(StatusCode::PeerFailed) : 0;
}

void addFlags(CLI::App &app, BenchFlags &flags) {
  app.add_option("-m", flags.m, "rows of A and C")->required()->delimiter(',')->type_name("M,...");
  app.add_option("-n", flags.n, "columns of B and C, on every rank")
      ->required()
      ->delimiter(',')
      ->type_name("N,...");
  app.add_option("-k", flags.k, "columns of A, rows of B")
      ->required()
      ->delimiter(',')
      ->type_name("K,...");
  app.add_option("--dtype", flags.dtype, "bf16 (default), f16, f32 or f64")->type_name("TYPE");
  app.add_option("--ranks", flags.ranks, "ranks, a process each (default 2)")->type_name("N");
  app.add_option("--backend", flags.backend, "cpu (default) or cuda")->type_name("NAME");
  app.add_option("--impl", flags.impl, "which rows (default: all)")
      ->delimiter(',')
      ->type_name("LIST");
  app.add_option("--graph", flags.graph,
                 "replayed as a graph: no, yes or both (default: both, if the backend can)")
      ->type_name("WHICH");
  app.add_option("--iterations", flags.iterations, "timed runs of a row (default 20)")
      ->type_name("I");
  app.add_option("--warm-up", flags.warmUp, "runs before them (default 5)")->type_name("I");
  app.add_option("--timeout-ms", flags.timeoutMs,
                 "a row without progress for this long has failed (default 60000)")
      ->type_name("T");
  app.add_option("--csv", flags.csv, "write the rows as CSV")->type_name("OUT.csv");
  app.add_option("--json", flags.json, "write the rows with all samples as JSON")
      ->type_name("OUT.json");
  app.add_option("--label", flags.labels, "also in the JSON, such as commit=1a2b3c")
      ->type_name("NAME=VALUE");
  app.add_option("--rows", flags.rows)->group("");
  app.add_option("--first-row", flags.firstRow)->group("");
  app.footer(kFooter);
}

} // namespace

Command addBench(CLI::App &app) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command = app.add_subcommand("bench", "Time an operation beside its limits");
  CLI::App *operation =
      command->add_subcommand("gather-matmul", "gather of A, and the product with B");
  command->require_subcommand(1);
  addFlags(*operation, *flags);
  return {command, [flags] { return benchCommand(*flags); }};
}

} // namespace braid::tools
