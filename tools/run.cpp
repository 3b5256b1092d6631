//===- tools/run.cpp - `braid run` ------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "api/ranks/run_memory.h"
#include "ir/counted.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/files.h"
#include "runtime/job/flight_record.h"
#include "runtime/warn.h"
#include "tools/run_command.h"
#include "tools/step_progress.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <climits>
#include <mutex>

#include <unistd.h>

namespace braid::tools {
namespace {

constexpr const char *kRunFooter = R"(
First checks the program across all ranks, as braid check does, and does not run it if it is unsafe.
Each iteration uses new random inputs, and its outputs are first filled with NaNs. --verify compares
every element of every output exactly with a reference computed from the fusion's definition.

Under torchrun, mpirun or srun, each process is the rank that its environment variables specify.

  braid run examples/ag_matmul.braid --ranks 4 --iterations 20 --verify
  braid run examples/ag_linear.braid --ranks 8 --schedule ring --chunks 2 --trace ring.json
  braid run examples/ag_matmul.braid --ranks 4 --processes --verify
  mpirun -n 4 braid run examples/ag_matmul.braid --verify)";

constexpr const char *kChecks = "Checks and limits";
constexpr const char *kOutput = "Output and files";
constexpr const char *kAuto = "With --schedule auto";

void addFlags(CLI::App &app, RunFlags &flags) {
  flags.source.isRun = true;
  flags.source.defaultSchedule = "pairwise; on GPUs, auto";
  flags.source.addTo(app);
  addText(app, "--backend", flags.backend, "NAME",
          "cpu (default), cuda, nccl, or null, which computes nothing");
  addInteger(app, "--iterations", flags.run.iterations, "I",
             "number of consecutive runs (default: 1)");
  addInteger(app, "--seed", flags.run.seed, "S", "seed of the random inputs (default: 1)");
  app.add_flag("--processes", flags.processes,
               "start one process per rank, as on GPUs; otherwise, CPU ranks are threads");
  addInteger(app, "--queues", flags.run.cluster.queues, "Q",
             "execute stream k on queue k mod Q (default: one queue per stream)");
  app.add_flag("--verify", flags.run.verify, "compare all results with a reference")
      ->group(kChecks);
  app.add_flag("--no-check", flags.noCheck, "run the program without first proving it safe")
      ->group(kChecks);
  addInteger(app, "--schedule-seed", flags.run.cluster.scheduleSeed, "S",
             "execute one command at a time, in a random order determined by this seed")
      ->group(kChecks);
  addInteger(app, "--timeout-ms", flags.timeoutMs, "T",
             "give up if there is no progress for this long (default: 60000)")
      ->group(kChecks);
  app.add_flag("--explain", flags.explain, "print which schedule was chosen, and why")
      ->group(kOutput);
  addText(app, "--trace", flags.trace, "OUT.json",
          "write a timeline of the executed commands, for https://ui.perfetto.dev")
      ->group(kOutput);
  app.add_flag("--prefix-output", flags.prefixOutput,
               "print each output line of the processes as '[rank] text'")
      ->group(kOutput);
  addText(app, "--flight-records", flags.flightRecords, "DIR",
          "folder for flight records, which show what each process was doing when the job failed, "
          "or none to disable them (default: a new folder)")
      ->group(kOutput);
  app.add_flag_callback(
      "--graph",
      [&launch = flags.source.knobs[static_cast<size_t>(Knob::Launch)]] {
        if (launch.value_or("graph") != "graph")
          throw CLI::ExcludesError("--graph", "--launch " + *launch); // main() catches this
        launch = "graph";
      },
      "the same as --launch graph");
  addText(app, "--auto-seconds", flags.autoSeconds, "S",
          "seconds to spend on trials for a shape that has not been measured on this machine "
          "(default: 2)")
      ->group(kAuto);
  addInteger(app, "--time-best", flags.timeBest, "K",
             "measure K candidates instead of limiting the time, even if the shape has been "
             "measured before")
      ->group(kAuto);
  app.footer(kRunFooter);
}

Status checkFlags(const RunFlags &flags) {
  if (flags.autoSeconds && !(*flags.autoSeconds >= 0))
    return badInput("expected --auto-seconds to be at least 0, got {}", *flags.autoSeconds);
  if (flags.timeBest && *flags.timeBest < 0)
    return badInput("expected --time-best to be at least 0, got {}", *flags.timeBest);
  if (flags.autoSeconds && flags.timeBest)
    return badInput("--auto-seconds and --time-best cannot be used together");
  if (flags.noCheck && flags.source.reproducible)
    return badInput(
        "--reproducible cannot be combined with --no-check, because the check proves the "
        "order of additions");
  if (flags.timeoutMs < 1)
    return badInput("expected --timeout-ms to be at least 1, got {}", flags.timeoutMs);
  return Status::ok();
}

/// Returns a failure if the backend does not support an option.
Status checkBackend(const RunFlags &flags, const Configuration &config, const Backend &backend) {
  BRAID_TRY(checkModes(config, backend));
  if (config.launch() == schedule::Launch::Graph && !flags.trace.empty())
    return unsupported("--trace cannot be combined with --graph, because commands of a replayed "
                       "graph are not timed");
  if (!backend.computes && !flags.trace.empty())
    return badInput("--trace requires a backend that executes commands, got '{}'", backend.name);
  return Status::ok();
}

/// Returns the role of this process. Ignores --processes in ranks that `braid run` has started.
Result<RankSetup> findSetup(const RunFlags &flags, const Backend &backend) {
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (place && *place && !(*place)->meeting.empty())
    return RankSetup{*place};
  if (flags.processes) {
    BRAID_TRY(checkIsAlone("--processes cannot be combined with another launcher",
                           "omit --processes to run as that rank, or "));
    return RankSetup{.isLauncher = true};
  }
  if (!place)
    return place.status();
  return RankSetup{*place, !*place && !backend.create};
}

/// Returns true if the user has set a directory for flight records.
bool leavesRecords(const RunFlags &flags) {
  return !flags.flightRecords.empty() && flags.flightRecords != "none";
}

/// Refuses flags that this role does not support or that contradict the launcher's environment.
Status checkSetup(const RunFlags &flags, const RankSetup &setup, const Backend &backend) {
  if (!setup.isLauncher && !setup.isLaunched() && flags.prefixOutput)
    return badInput("--prefix-output requires --processes");
  if (setup.areThreads() && leavesRecords(flags))
    return badInput("--flight-records requires each rank to be a process, but the ranks are "
                    "threads of one process");
  if (setup.areThreads())
    return Status::ok();
  if (flags.run.cluster.scheduleSeed)
    return unsupported("--schedule-seed requires all ranks to be threads of one process");
  if (!backend.join)
    return unsupported("--backend {} cannot be combined with --processes or a launcher, because "
                       "its ranks are threads",
                       backend.name);
  if (setup.place && flags.source.ranks && *flags.source.ranks != setup.place->ranks)
    return badInput("--ranks is {}, but {} sets {}; leave out --ranks{}, or unset {}",
                    *flags.source.ranks, setup.place->source, setup.place->ranks,
                    setup.place->ranks == 1 ? ", add --processes" : "",
                    variablesOfPlace(processEnvironment()));
  return Status::ok();
}

/// Refuses output files that cannot be written. Called before anything runs.
Status checkFiles(const RunFlags &flags) {
  if (flags.trace == "-" && flags.prefixOutput)
    return badInput("--trace - cannot be combined with --prefix-output, which would write into the "
                    "trace");
  BRAID_TRY(expectOtherFile("--trace", flags.trace, flags.source.file));
  if (!flags.trace.empty())
    BRAID_TRY(checkWritable(flags.trace));
  return leavesRecords(flags) ? checkRecordsFolder(flags.flightRecords) : Status::ok();
}

/// Returns true if the run itself has failed, in which case flight records are useful.
bool hasFailedRunning(const Status &status) {
  constexpr StatusCode kFailures[] = {StatusCode::WrongResult, StatusCode::PeerFailed,
                                      StatusCode::TimedOut, StatusCode::Internal};
  return llvm::is_contained(kFailures, status.code());
}

/// Writes the flight records of all ranks, and returns a message. If the flags forbid records or a
/// rank has not joined, writes nothing and returns "".
std::string leaveRecords(const RunFlags &flags, const JobMemory &memory, llvm::ArrayRef<Plan> plans,
                         const std::string &job) {
  for (int64_t rank = 0; rank < memory.ranks(); ++rank)
    if (flags.flightRecords == "none" || memory.stateOf(rank) == RankState::Absent)
      return "";
  std::string folder = flags.flightRecords;
  if (folder.empty())
    folder =
        fmt::format("{}/braid-flight-{}-{:016x}", processEnvironment()("TMPDIR").value_or("/tmp"),
                    geteuid(), memory.number());
  const Result<std::string> file = writeFlightRecords(folder, memory, plans, job);
  if (!file)
    return fmt::format("braid: warning: the flight records could not be written: {}\n",
                       file.status().message());
  return fmt::format("braid: wrote flight records of {0}; to read them, run braid explain {1}\n",
                     counted(memory.ranks(), "rank"), printable(*file, PATH_MAX));
}

/// One `braid run`: compiles and checks the program, then runs, launches or joins the ranks.
class Run {
public:
  explicit Run(const RunFlags &flags) : flags_(flags) {}

  int operator()() {
    Status status = begin();
    if (status.isOk())
      status = compile();
    if (!status.isOk())
      return fail(status);
    return setup_.isLauncher ? launchRanks() : runRanks();
  }

private:
  Status begin();
  Status createOrJoin();
  Status compile();
  Status choose();
  bool isChecker() const;
  Status makePlans(bool isDecided);
  Result<RunReport> runHere();
  int runRanks();
  llvm::ArrayRef<Plan> plansFor(const JobMemory &memory);
  Result<std::vector<Plan>> plansOf(const std::string &choice) const;
  int launchRanks();
  int fail(Status cause);
  int endFailed(const Status &cause) const;
  std::string leaveOwnRecords();
  std::string prefixed(const std::string &message) const;

  const RunFlags &flags_;
  RunOptions options_;
  Backend backend_;
  RankSetup setup_;
  CompileOptions compileOptions_;
  std::shared_ptr<ProgramState> program_; ///< has a provisional schedule until choose()
  std::vector<Plan> plans_;
  std::once_flag isChoiceTaken_;  ///< guards the launcher's update of plans_ to the ranks' choice
  bool isKnown_ = false;          ///< true once this rank has joined; it must then report failures
  std::unique_ptr<JobState> job_; ///< null in a launcher; refers to the members above
};

/// Determines the role of this process. If it is a rank, joins the job; after that, a failure of
/// this process ends all ranks.
Status Run::begin() {
  compileOptions_ = BRAID_TRY(flags_.source.toOptions());
  const Configuration &config = compileOptions_.schedule.all;
  BRAID_TRY(checkFlags(flags_));
  backend_ =
      BRAID_TRY(findBackend(builtinBackends(), flags_.backend, {"cpu", "cuda", "nccl", "null"}));
  BRAID_TRY(checkBackend(flags_, config, backend_));
  options_ = flags_.run;
  options_.cluster.timeout = std::chrono::milliseconds(flags_.timeoutMs);
  options_.cluster.reproducible = flags_.source.reproducible;
  options_.knobs = config;
  options_.trace = !flags_.trace.empty();
  compileOptions_.transport = backend_.transport;
  setup_ = BRAID_TRY(findSetup(flags_, backend_));
  BRAID_TRY(checkSetup(flags_, setup_, backend_));
  BRAID_TRY(checkFiles(flags_));
  if (setup_.place)
    BRAID_TRY(createOrJoin());
  return checkSettings(processEnvironment());
}

Status Run::createOrJoin() {
  ClusterOptions &cluster = options_.cluster;
  cluster.ranks = setup_.areThreads() ? program_->compiled.program->ranks() : setup_.place->ranks;
  if (setup_.areThreads()) {
    job_ = BRAID_TRY(JobState::create(backend_, cluster));
  } else {
    auto rank = BRAID_TRY(JobRank::join(*setup_.place, cluster.timeout));
    isKnown_ = true;
    job_ = BRAID_TRY(JobState::join(backend_, cluster, std::move(rank)));
  }
  return job_->cluster->control(job_->cluster->firstHosted()).failure();
}

Status Run::compile() {
  if (setup_.place)
    compileOptions_.ranks = setup_.place->ranks;
  // The launcher passes the text that it has checked, because FILE may have changed, or be a pipe.
  const SourceFlags &flags = flags_.source;
  auto source = BRAID_TRY(setup_.isLaunched() ? readSource("-", flags.file == "-" ? "" : flags.file)
                                              : readSource(flags.file));
  options_.isAuto = compileOptions_.isAuto || (!flags.schedule && choosesByItself(backend_));
  if (!options_.isAuto && (flags_.autoSeconds || flags_.timeBest))
    return badInput("{} requires --schedule auto",
                    flags_.autoSeconds ? "--auto-seconds" : "--time-best");
  program_ = BRAID_TRY(ProgramState::make(std::move(source), compileOptions_));
  options_.isAuto = options_.isAuto && program_->compiled.isLowered;
  BRAID_TRY(checkRun(program_->compiled, backend_, options_, setup_.areThreads()));
  return makePlans(/*isDecided=*/!options_.isAuto);
}

/// Makes the Plans. If `isDecided` and this process is the checker, also checks them: returns
/// Rejected, with the counterexample, unless they are safe with the job's number of queues.
Status Run::makePlans(bool isDecided) {
  const Compiled &compiled = program_->compiled;
  if (!isDecided || flags_.noCheck || !isChecker()) {
    plans_ = BRAID_TRY(braid::makePlans(compiled));
    return Status::ok();
  }
  StepProgress progress("check");
  auto report = [&](const WorkProgress &now) {
    progress(now);
    if (job_ && !setup_.areThreads()) // the other ranks are waiting, and must not time out
      job_->cluster->control(setup_.place->rank).tick();
  };
  Result<std::vector<Plan>> plans = makeSafePlans(compiled, {.queues = options_.cluster.queues,
                                                             .ordered = flags_.source.reproducible,
                                                             .ownQueues = backend_.ownQueues,
                                                             .progress = report});
  if (plans.status().code() == StatusCode::Rejected)
    return {StatusCode::Rejected,
            plans.status().message() + "use --no-check to run the program anyway"};
  plans_ = BRAID_TRY(std::move(plans));
  return Status::ok();
}

/// Returns true if this process checks the program for the whole job: the launcher, or rank 0.
bool Run::isChecker() const {
  if (!setup_.place)
    return true;
  return setup_.place->rank == 0 && (options_.isAuto || !setup_.isLaunched());
}

/// Lets the ranks choose a schedule. Afterwards, the state is as if flags had set the chosen knobs.
/// Rank 0 checks the program with that schedule before any rank prepares it.
Status Run::choose() {
  ChooseOptions how = chooseOptions(backend_, !setup_.areThreads(), compileOptions_);
  if (!flags_.trace.empty()) // a graph's trace would have no commands
    how.launchModes = {LaunchMode::Eager};
  how.timed = flags_.timeBest;
  how.seconds = flags_.autoSeconds.value_or(how.seconds);
  how.warn = warnOnStderr;
  plans_.clear();
  program_ = BRAID_TRY(job_->choose(program_->source->diags, std::move(how)));
  if (job_->isRank0Here() && !setup_.areThreads())
    job_->rank->memory().publishChoice(program_->schedule.str());
  if (flags_.explain)
    llvm::errs() << program_->trials;
  options_.knobs = program_->schedule.all;
  return makePlans(/*isDecided=*/true);
}

Result<RunReport> Run::runHere() {
  BRAID_TRY(expectRunMemory(plans_, backend_, options_, setup_.areThreads()));
  if (setup_.areThreads())
    BRAID_TRY(createOrJoin());
  else
    BRAID_TRY(compareOptions(*job_, program_->compiled, options_));
  if (options_.isAuto)
    BRAID_TRY(choose());
  StepProgress progress("run", std::chrono::seconds(2));
  options_.progress = std::ref(progress);
  return run(*job_, program_->compiled, std::move(plans_), options_);
}

int Run::runRanks() {
  Result<RunReport> report = runHere();
  if (!report)
    return fail(report.status());
  job_->cluster.reset(); // the launcher gives ranks that have left the job more time to print
  if (setup_.place && setup_.place->rank != 0)
    return 0;
  if (!flags_.trace.empty())
    if (Status status = writeFile(flags_.trace, report->trace); !status.isOk())
      return tools::report(status);
  // If the trace goes to standard output, print the summary on standard error.
  llvm::raw_ostream &os = flags_.trace == "-" ? llvm::errs() : llvm::outs();
  printSummary(os, flags_, *program_, *report);
  if (flags_.explain)
    printChoices(os, flags_, setup_, *program_, *report);
  return 0;
}

/// Returns the Plans that diagnostics refer to. For `auto`, there are none until the ranks have
/// made their choice.
llvm::ArrayRef<Plan> Run::plansFor(const JobMemory &memory) {
  if (!options_.isAuto)
    return plans_;
  const std::string choice = memory.choice();
  if (choice.empty())
    return {};
  std::call_once(isChoiceTaken_, [&] {
    Result<std::vector<Plan>> plans = plansOf(choice);
    plans_ = plans ? std::move(*plans) : std::vector<Plan>(); // none if memory is exhausted
  });
  return plans_;
}

Result<std::vector<Plan>> Run::plansOf(const std::string &choice) const {
  const Configurations chosen = BRAID_TRY(Configurations::parse(choice));
  const Diagnostics &text = program_->source->diags;
  const auto program = BRAID_TRY(ProgramState::make(parseSource(text.fileName(), text.text()),
                                                    applyTo(compileOptions_, chosen)));
  return braid::makePlans(program->compiled);
}

int Run::launchRanks() {
  if (Status status = expectRunMemory(plans_, backend_, options_, /*areThreads=*/false);
      !status.isOk())
    return fail(status);
  Result<LaunchReport> report =
      tools::launchRanks({.ranks = program_->compiled.program->ranks(),
                          .input = program_->source->diags.text(),
                          .timeout = options_.cluster.timeout,
                          .prefixOutput = flags_.prefixOutput,
                          .plans = [this](auto &memory) { return plansFor(memory); }},
                         "the run completed");
  if (!report)
    return fail(report.status());
  if (report->signal != 0 || report->status.isOk())
    return report->exitCode();
  const JobMemory &memory = *report->memory;
  if (hasFailedRunning(report->status))
    llvm::errs() << leaveRecords(flags_, memory, plansFor(memory), report->job);
  return endFailed(report->status);
}

/// Prefixes every line with the rank of this process if the process is one rank of a job.
std::string Run::prefixed(const std::string &message) const {
  if (!setup_.place)
    return message;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(message).split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::string text;
  for (llvm::StringRef line : lines)
    text += fmt::format("rank {}: {}\n", setup_.place->rank, line.str());
  return text;
}

int Run::fail(Status cause) {
  if (job_) {
    cause = job_->fail(cause);
    job_->cluster.reset();
  }
  if (isKnown_ && setup_.isLaunched())
    return static_cast<int>(cause.code()); // the launcher prints the cause once
  llvm::errs() << prefixed(messageOf(cause, flags_.source.file));
  if (job_ && !setup_.areThreads() && hasFailedRunning(cause))
    llvm::errs() << prefixed(leaveOwnRecords());
  return endFailed(cause);
}

/// If a run on GPUs was refused, rank 0 suggests `braid doctor`. Returns the exit code.
int Run::endFailed(const Status &cause) const {
  const bool isOnGpus = bool(backend_.facts);
  const bool speaks = !setup_.place || setup_.place->rank == 0;
  if (speaks && isOnGpus && cause.code() == StatusCode::Unsupported)
    llvm::errs() << prefixed(
        "run `braid doctor` to find out what prevents programs from running on this machine\n");
  return static_cast<int>(cause.code());
}

/// If another launcher started the ranks, the rank that hosts the job writes its host's flight
/// records after the other ranks have left. If that rank caused the failure, it may be dead, so all
/// ranks write their host's records.
std::string Run::leaveOwnRecords() {
  JobRank &own = *job_->rank;
  const JobMemory &memory = own.memory();
  const std::optional<JobCause> cause = memory.cause();
  if (own.isHost())
    own.waitForOthers();
  else if (!cause || cause->rank != memory.ranksOf(memory.host()).first)
    return "";
  llvm::ArrayRef<Plan> plans = plans_;
  if (plans.empty() && !job_->ended.empty())
    plans = job_->ended.rbegin()->second.plans; // the run's Plans
  const std::string said = leaveRecords(flags_, memory, plans, setup_.place->job);
  return own.isHost() ? said : "";
}

} // namespace

Command addRun(CLI::App &app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *command = app.add_subcommand("run", "Run a fusion or program on all ranks");
  addFlags(*command, *flags);
  return {command, [flags] { return Run(*flags)(); }};
}

} // namespace braid::tools
