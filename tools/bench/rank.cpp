//===- tools/bench/rank.cpp - one rank of the job that times the rows of a shape --------------===//

#include "tools/bench/flags.h"

#include "api/autotune/choose.h"
#include "api/ranks/job_state.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/host_name.h"
#include "runtime/warn.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <ctime>
#include <sys/resource.h>

namespace braid::tools {
namespace {

/// Raises the limit on open files, because prepared rows keep up to hundreds of files open.
void allowOpenFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

//===- The table ------------------------------------------------------------------------------===//

/// Formats a right-aligned cell, or "-" if there is no number. Long numbers exceed `width`.
std::string cell(std::optional<double> number, int width, int digits) {
  return fmt::format(" {:>{}}", number ? fmt::format("{:.{}f}", *number, digits) : "-", width - 1);
}

std::string lineOf(const BenchRow &row, size_t width, const BenchLimits &limits) {
  std::string line = fmt::format("  {:<{}}{:>7}", row.name, width, row.isGraphed ? "yes" : "no");
  if (!row.isTimed())
    return line + "  failed: " + row.failure;
  const Spread spread = row.spread();
  std::optional<double> rate;
  if (row.flops > 0 && row.time() > 0)
    rate = row.flops / row.time() * 1e-6;
  line += cell(row.time(), 12, 1) + cell(spread.low, 12, 1) + cell(spread.high, 12, 1) +
          cell(row.burstTime(), 12, 1) + cell(rate, 10, 1) + cell(limits.efficiency(row), 7, 3);
  return row.choice.empty() ? line : line + "  " + row.choice;
}

void printTable(const std::string &title, const std::vector<BenchRow> &rows,
                llvm::raw_ostream &os) {
  size_t width = 32;
  for (const BenchRow &row : rows)
    width = std::max(width, row.name.size() + 2);
  const BenchLimits limits = BenchLimits::of(rows);
  os << fmt::format("{}\n  {:<{}}{:>7}{:>12}{:>12}{:>12}{:>12}{:>10}{:>7}\n", title, "row", width,
                    "graph", "median us", "p10", "p90", "burst us", "TFLOP/s", "E");
  for (const BenchRow &row : rows)
    os << lineOf(row, width, limits) << "\n";
  os.flush();
}

//===- A rank ---------------------------------------------------------------------------------===//

/// Returns a function that chooses a schedule like `braid run --schedule auto`. Rank 0 prints it.
RowChooser chooserFor(const BenchFlags &flags, const Backend &backend, PlanTimer &planTimer) {
  ChooseOptions options = chooseOptions(backend, /*ranksAreProcesses=*/true);
  options.seconds = 4; // more than the default, because the choice competes with other rows
  if (flags.graph != "both")
    options.launchModes = {flags.graph == "yes" ? LaunchMode::Graph : LaunchMode::Eager};
  if (planTimer.rank() == 0)
    options.warn = warnOnStderr;
  return [options, &planTimer](const TimedRow &row) -> Result<Configurations> {
    ChooseOptions how = options;
    how.given = row.options;
    const ScheduleChoice choice = BRAID_TRY(choose(row.name, row.text, how, planTimer));
    if (planTimer.rank() == 0)
      llvm::errs() << explain(choice);
    return choice.schedule;
  };
}

std::string rowJson(const BenchFlags &flags, const BenchShape &shape, const BenchRow &row) {
  return jsonText([&](JsonWriter &json) {
    json.object([&] {
      if (flags.operation) {
        json.attribute("m", shape.m);
        json.attribute("n", shape.n);
        json.attribute("k", shape.k);
      }
      writeMembers(json, row);
    });
  });
}

/// Returns the current time in UTC, such as 2026-11-20T12:00:00Z.
std::string timeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  return text;
}

/// Times all shapes on one rank of the job.
class RankBench {
public:
  RankBench(const BenchFlags &flags, JobState &job) : flags_(flags), job_(job) {}
  /// Returns the failure that ended the job or, if there is none, the first refused row's failure.
  Status run();

private:
  Result<std::vector<BenchRow>> timeShape(const BenchShape &shape);
  Status report(const BenchShape &shape, const std::vector<BenchRow> &rows, bool isLast);
  Result<std::string> json();
  ControlPlane &control() { return job_.cluster->control(job_.cluster->firstHosted()); }

  const BenchFlags &flags_;
  JobState &job_;
  std::vector<std::string> rows_; ///< one line of JSON per row
};

Result<std::vector<BenchRow>> RankBench::timeShape(const BenchShape &shape) {
  PlanTimer planTimer = job_.timerOn(control().rank());
  RowTimer timer(planTimer, chooserFor(flags_, job_.backend, planTimer));
  return timer.time(flags_.rowsOf(shape, job_.backend), flags_.timing());
}

/// Returns the results as JSON, with each row on a single line, because rows have many samples.
Result<std::string> RankBench::json() {
  const BenchFlags &f = flags_;
  std::string description = job_.cluster->device(control().rank()).description();
  if (job_.backend.transport == Transport::Messages)
    description += ", NCCL " + BRAID_TRY(job_.backend.messages());
  auto write = [&](JsonWriter &json) {
    json.object([&] {
      json.attribute("operation", f.operation ? f.operation->name : f.file.file);
      json.attribute("dtype", f.dtype);
      json.attribute("ranks", f.ranks);
      json.attribute("backend", f.backend);
      json.attribute("reproducible", f.source.reproducible);
      json.attribute("rounds", f.rounds);
      json.attribute("iterations", f.iterations);
      json.attribute("bursts", f.bursts);
      json.attribute("row_ms", f.rowMs);
      json.attribute("date", timeNow());
      json.attribute("device", description);
      json.attribute("host", hostName());
      json.attribute("version", BRAID_VERSION);
      json.attributeArray("rows", [&] {
        for (const std::string &row : rows_)
          json.rawValue(row);
      });
    });
  };
  return jsonText(write, 1) + "\n";
}

/// Called on rank 0. Prints the table. Writes the JSON after each shape, so that an interrupted
/// benchmark leaves a file. If the file cannot be rewritten, writes it only after the last shape.
Status RankBench::report(const BenchShape &shape, const std::vector<BenchRow> &rows, bool isLast) {
  printTable(flags_.titleOf(shape), rows, flags_.json == "-" ? llvm::errs() : llvm::outs());
  for (const BenchRow &row : rows)
    rows_.push_back(rowJson(flags_, shape, row));
  if (!flags_.json.empty() && (isLast || isReplacedAsAWhole(flags_.json)))
    return writeFile(flags_.json, BRAID_TRY(json()));
  return Status::ok();
}

Status RankBench::run() {
  const std::vector<BenchShape> shapes = flags_.shapes();
  Status refused;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (control().rank() == 0)
      llvm::errs() << fmt::format("braid: {}: shape {} of {}\n", flags_.titleOf(shapes[i]), i + 1,
                                  shapes.size());
    const std::vector<BenchRow> rows = BRAID_TRY(timeShape(shapes[i]));
    if (control().rank() == 0)
      BRAID_TRY(report(shapes[i], rows, i + 1 == shapes.size()));
    for (const BenchRow &row : rows)
      if (refused.isOk() && row.code != StatusCode::Ok)
        refused = Status(row.code, row.name + ": " + row.failure);
    BRAID_TRY(job_.recycleTrials(control().rank()));
  }
  return refused.isOk() ? control().commit() : refused;
}

Status runAsRank(const BenchFlags &flags, const Backend &backend, const Place &place) {
  allowOpenFiles();
  const ClusterOptions options{.ranks = place.ranks,
                               .timeout = std::chrono::milliseconds(flags.timeoutMs),
                               .reproducible = flags.source.reproducible};
  const auto job = BRAID_TRY(JobState::join(backend, options, place));
  const Status status = RankBench(flags, *job).run();
  // Report the failure before leaving. Otherwise, other ranks would report that this rank left.
  return status.isOk() ? status : job->fail(status);
}

} // namespace

int benchRank(const BenchFlags &flags, const Backend &backend) {
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!place || !*place)
    return tools::report(badInput("this process is not a rank started by braid bench"));
  return static_cast<int>(runAsRank(flags, backend, **place).code());
}

} // namespace braid::tools
