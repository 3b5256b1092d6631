//===- tools/bench/rank.cpp - one rank of the job that times the rows of a shape --------------===//

#include "tools/bench/rank.h"

#include "api/autotune/choose.h"
#include "api/ranks/job_state.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/warn.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <sys/resource.h>

namespace braid::tools {
namespace {

/// Each prepared row needs open files; a shape may need hundreds.
void allowOpenFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

//===- The table ------------------------------------------------------------------------------===//

/// Numbers that are too wide widen their column.
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

/// Chooses like `braid run --schedule auto`; rank 0 shows the best candidates.
RowChooser chooserFor(const BenchFlags &flags, const Backend &backend, PlanTimer &planTimer) {
  ChooseOptions options = chooseOptions(backend, /*ranksAreProcesses=*/true);
  options.seconds = 4; // more than by default, since the result is compared with other rows
  if (flags.graph != "both")
    options.launchModes = {flags.graph == "yes" ? LaunchMode::Graph : LaunchMode::Eager};
  if (planTimer.rank() == 0)
    options.warn = warnOnStderr;
  return [options, &planTimer](const TimedRow &row) -> Result<ChosenRow> {
    ChooseOptions how = options;
    how.given = row.options;
    const ScheduleChoice choice = BRAID_TRY(choose(row.name, row.text, how, planTimer));
    if (planTimer.rank() == 0)
      llvm::errs() << explain(choice);
    TimedRow chosen = row;
    chosen.options = applyTo(row.options, choice.schedule);
    chosen.isGraphed = launchModeOf(choice.schedule.all) == LaunchMode::Graph;
    chosen.transferMode = transferModeOf(choice.schedule.all);
    chosen.isAuto = false;
    return ChosenRow{std::move(chosen), choice.schedule.str()};
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

std::string rankRows(const BenchFlags &flags, const BenchShape &shape,
                     const std::vector<BenchRow> &rows, const std::string &device) {
  StatusCode code = StatusCode::Ok;
  std::string lines;
  for (const BenchRow &row : rows) {
    lines += rowJson(flags, shape, row) + "\n";
    if (code == StatusCode::Ok)
      code = row.code;
  }
  return fmt::format("{}\n{}\n{}", static_cast<int>(code), device, lines);
}

Status writeReport(const BenchFlags &flags, const BenchShape &shape,
                   const std::vector<BenchRow> &rows, const std::string &device) {
  printTable(flags.titleOf(shape), rows, flags.json == "-" ? llvm::errs() : llvm::outs());
  return writeFile(flags.rankRows, rankRows(flags, shape, rows, device));
}

Status timeRows(const BenchFlags &flags, JobState &job) {
  const int64_t number = job.cluster->firstHosted();
  const BenchShape shape = flags.shapes()[static_cast<size_t>(flags.rankShape)];
  job.trials.resize(1);
  PlanTimer planTimer(*job.cluster, number, job.trials.front(), job.barrier());
  RowTimer timer(planTimer, chooserFor(flags, job.backend, planTimer));
  const std::vector<BenchRow> rows =
      BRAID_TRY(timer.time(flags.rowsOf(shape, job.backend), flags.timing()));
  if (number == 0) {
    std::string device = job.cluster->device(number).description();
    if (job.backend.transport == Transport::Messages)
      device += ", NCCL " + BRAID_TRY(job.backend.messages());
    BRAID_TRY(writeReport(flags, shape, rows, device));
  }
  return job.cluster->control(number).commit();
}

Status runAsRank(const BenchFlags &flags, const Backend &backend, const Place &place) {
  allowOpenFiles();
  const ClusterOptions options{.ranks = place.ranks,
                               .timeout = std::chrono::milliseconds(flags.timeoutMs),
                               .reproducible = flags.source.reproducible};
  const auto job = BRAID_TRY(JobState::join(backend, options, place));
  const Status status = timeRows(flags, *job);
  // This rank must not leave first, since the others would report that as the cause.
  return status.isOk() ? status : job->fail(status);
}

} // namespace

int benchRank(const BenchFlags &flags, const Backend &backend) {
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!place || !*place)
    return tools::report(badInput("expected to be one rank of a bench's job"));
  return static_cast<int>(runAsRank(flags, backend, **place).code());
}

} // namespace braid::tools
