//===- tests/gpu/gpu_runs.cpp - many runs by the same ranks -----------------------------------===//
//
//   gpu_runs RUNS.json --ranks N [--backend NAME]
//   gpu_runs RUNS.json --as-rank [--backend NAME]     one rank of a job started by a launcher
//
// Executes runs like `braid run --verify` one after another in one job, because starting ranks on
// GPUs takes far longer than such a run. Unlike `braid run`, does not check first whether there is
// enough memory. RUNS.json is a list with values for flags of `braid run`:
//
//   [{"name": "ring", "file": "examples/ag_matmul.braid", "schedule": "ring;launch=graph",
//     "set": {"M": 82}, "iterations": 300}]
//
// Prints `passed SECONDS NAME` for each run as soon as all ranks have committed it. The first
// failed run ends the job with the reason.
//
//===----------------------------------------------------------------------------------------===//

#include "api/autotune/candidates.h"
#include "api/compile/plans.h"
#include "api/launch/launch.h"
#include "api/ranks/backends.h"
#include "api/ranks/run.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/environment.h"
#include "tests/support/json.h"

#include <fmt/format.h>

#include <cstdio>
#include <list>

namespace braid::test {
namespace {

std::string messageOf(const Status &status, const Source &source) {
  return source.diags.hasErrors() ? source.diags.str() : status.message();
}

struct Flags {
  std::string path, backend = "cuda";
  int64_t ranks = 0;
  bool isRank = false;
};

/// A run and the objects that it refers to. Remains valid until the job ends.
struct Run {
  std::unique_ptr<Source> source;
  Compiled compiled;
};

class RunsOfRank {
public:
  explicit RunsOfRank(std::unique_ptr<JobState> job)
      : backend_(job->backend), job_(std::move(job)) {}

  /// Performs one run, and prints that it has passed. Collective.
  Status operator()(const Json &wanted) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string name = wanted["name"].text();
    if (Status status = runOne(wanted).annotated(name); !status.isOk())
      return job_->fail(status); // reports before this rank leaves the job
    if (isRank0())
      std::printf("passed %.2f %s\n", secondsSince(begin), name.c_str());
    std::fflush(stdout); // in case a rank is killed
    return Status::ok();
  }

private:
  bool isRank0() const { return job_->isRank0Here(); }

  Status runOne(const Json &wanted) {
    CompileOptions options{.ranks = job_->cluster->ranks(), .transport = backend_.transport};
    options.schedule = BRAID_TRY(Configurations::parse(wanted["schedule"].text()));
    for (const auto &[parameter, value] : *wanted["set"].value().getAsObject())
      options.parameters.emplace_back(parameter.str(), *value.getAsInteger());
    const Configuration &config = options.schedule.all;
    BRAID_TRY(checkModes(config, backend_));

    Run &run = runs_.emplace_back();
    run.source = BRAID_TRY(readSource(wanted["file"].text()));
    Result<Compiled> compiled = compile(*run.source, options);
    if (!compiled)
      return Status(compiled.status().code(), messageOf(compiled.status(), *run.source));
    run.compiled = *compiled;
    std::vector<Plan> plans = BRAID_TRY(makePlans(run.compiled));
    if (isRank0())
      BRAID_TRY(expectSafe(run.compiled, plans, {.ownQueues = backend_.ownQueues}));
    const RunOptions how{
        .iterations = wanted["iterations"].integer(), .verify = true, .knobs = config};
    BRAID_TRY(checkRun(run.compiled, backend_, how, /*areThreads=*/false));
    const RunReport report = BRAID_TRY(braid::run(*job_, run.compiled, std::move(plans), how));
    return report.elementsCompared == 0 ? internalError("nothing was compared") : Status::ok();
  }

  const Backend backend_;
  std::list<Run> runs_;
  std::unique_ptr<JobState> job_;
};

Result<std::vector<Json>> readRuns(const std::string &path) {
  std::vector<Json> runs = Json::parse(BRAID_TRY(readFile(path, size_t(16) << 20))).elements();
  if (runs.empty())
    return badInput("{}: expected a list of runs", path);
  return runs;
}

Status runAll(const Flags &flags, const Place &place) {
  const BackendRegistry registry = builtinBackends();
  const Backend *backend = registry.find(flags.backend);
  if (!backend)
    return badInput("--backend: expected one of this build, got '{}'", flags.backend);
  const std::vector<Json> runs = BRAID_TRY(readRuns(flags.path));
  RunsOfRank runOne(BRAID_TRY(JobState::join(
      *backend, {.ranks = place.ranks, .timeout = std::chrono::seconds(20)}, place)));
  for (const Json &wanted : runs)
    BRAID_TRY(runOne(wanted));
  return Status::ok();
}

int rankMain(const Flags &flags) {
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!place || !*place)
    return 2;
  const Status status = runAll(flags, **place);
  if (!status.isOk() && (*place)->rank == 0)
    std::printf("FAILED: %s\n", status.message().c_str());
  std::fflush(stdout);
  return static_cast<int>(status.code());
}

/// Rank 0 prints the runs that passed, because launch() treats a job as successful after its first
/// commit. A run that hangs fails after the job's timeout.
int launchRanks(const Flags &flags, const std::string &program) {
  LaunchOptions options;
  options.ranks = flags.ranks;
  options.arguments = {program, flags.path, "--as-rank", "--backend", flags.backend};
  options.teardown = std::chrono::hours(1);
  Result<LaunchReport> report = launch(options);
  const Status status = report ? report->status : report.status();
  if (!status.isOk())
    std::printf("FAILED: %s\n", status.message().c_str());
  if (!report)
    return static_cast<int>(status.code());
  for (const std::string &ending : report->endings)
    std::printf("FAILED: %s\n", ending.c_str());
  const int code = report->exitCode();
  return code == 0 && !report->endings.empty() ? static_cast<int>(StatusCode::PeerFailed) : code;
}

int runsMain(int argc, char **argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const llvm::StringRef flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--as-rank")
      flags.isRank = true;
    else if (flag == "--ranks" && ++i < argc)
      flags.ranks = std::atoi(value.data());
    else if (flag == "--backend" && ++i < argc)
      flags.backend = value.str();
    else
      flags.path = flag.str();
  }
  if (flags.isRank)
    return rankMain(flags);
  if (flags.path.empty() || flags.ranks < 1) {
    std::fprintf(stderr, "expected RUNS.json --ranks N [--backend NAME]\n");
    return 2;
  }
  return launchRanks(flags, argv[0]);
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) { return braid::test::runsMain(argc, argv); }
