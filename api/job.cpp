//===- api/job.cpp - ranks that run programs together -----------------------------------------===//

#include "api/ranks/job_state.h"

#include "api/ranks/backends.h"
#include "ir/failure.h"

#include <fmt/ranges.h>

namespace braid {
namespace {

Result<Backend> findBackend(const std::string &name) {
  const BackendRegistry registry = builtinBackends();
  if (const Backend *backend = registry.find(name))
    return *backend;
  return unsupported("expected a backend that this build supports ({}), got '{}'",
                     fmt::join(registry.names(), ", "), name);
}

ClusterOptions clusterOptions(const JobOptions &options, int64_t ranks) {
  return {.ranks = ranks,
          .timeout = options.timeout,
          .scheduleSeed = options.scheduleSeed,
          .reproducible = options.reproducible,
          .device = options.device.value_or(-1)};
}

Result<Place> toPlace(const JobPlace &given) {
  if (given.ranks < 1)
    return badInput("JobOptions::place: expected at least 1 rank, got {}", given.ranks);
  if (given.rank < 0 || given.rank >= given.ranks)
    return badInput("JobOptions::place: expected a rank from 0 to {}, got rank {} of {} ranks",
                    given.ranks - 1, given.rank, given.ranks);
  if (given.name.empty())
    return badInput("JobOptions::place: expected a job name, got none");
  return Place{.source = "JobOptions::place",
               .rank = given.rank,
               .ranks = given.ranks,
               .localRank = given.rank,
               .localRanks = given.ranks,
               .job = "placed " + given.name};
}

Result<Place> findOwnPlace(const JobOptions &options) {
  if (options.place)
    return toPlace(*options.place);
  std::optional<Place> place = BRAID_TRY(findPlace(processEnvironment()));
  if (!place)
    return badInput(
        "this process is not a rank of a job: start it with torchrun, mpirun or srun, or set "
        "BRAID_RANK and BRAID_RANKS");
  if (options.ranks != 0 && options.ranks != place->ranks)
    return badInput("expected {} ranks, but {} reports {}", options.ranks, place->source,
                    place->ranks);
  return *place;
}

} // namespace

Job::Job(std::unique_ptr<JobState> state) : state_(std::move(state)) {}
Job::~Job() {
  if (state_->isForked())
    (void)state_.release();
}

Result<std::shared_ptr<Job>> Job::create(const JobOptions &options) {
  const Backend backend = BRAID_TRY(findBackend(options.backend));
  if (options.ranks < 1)
    return badInput("expected at least 1 rank, got {}", options.ranks);
  auto state = BRAID_TRY(JobState::create(backend, clusterOptions(options, options.ranks)));
  state->mostBytes = options.mostBytes;
  return std::shared_ptr<Job>(new Job(std::move(state)));
}

Result<std::shared_ptr<Job>> Job::join(const JobOptions &options) {
  const Backend backend = BRAID_TRY(findBackend(options.backend));
  const Place place = BRAID_TRY(findOwnPlace(options));
  auto state = BRAID_TRY(JobState::join(backend, clusterOptions(options, place.ranks), place));
  state->mostBytes = options.mostBytes;
  return std::shared_ptr<Job>(new Job(std::move(state)));
}

int64_t Job::ranks() const { return state_->cluster ? state_->cluster->ranks() : 0; }
int64_t Job::firstRank() const { return state_->cluster ? state_->cluster->firstHosted() : 0; }
int64_t Job::hosted() const { return state_->cluster ? state_->cluster->hosted() : 0; }

Result<CompiledProgram> Job::compileText(const std::string &name, const std::string &text,
                                         const LoweringOptions &options) {
  BRAID_TRY(state_->expectOpen());
  CompileOptions given = BRAID_TRY(toCompileOptions(options));
  given.ranks = options.ranks.value_or(ranks());
  given.transport = state_->backend.transport;
  auto program = BRAID_TRY(ProgramState::make(parseSource(name, text), given));
  BRAID_TRY(state_->check(program->compiled, program->schedule.all));
  const bool isOpen = options.schedule.empty() && choosesByItself(state_->backend);
  if (!program->compiled.isLowered || !(given.isAuto || isOpen))
    return CompiledProgram(std::move(program));
  if (!(options.autoSeconds >= 0))
    return badInput("expected autoSeconds to be at least 0, got {}", options.autoSeconds);
  ChooseOptions how = chooseOptions(state_->backend, !state_->areThreads(), given);
  how.launchModes = {launchModeOf(given.schedule.all)};
  how.seconds = options.autoSeconds;
  return CompiledProgram(BRAID_TRY(state_->choose(program->source->diags, std::move(how))));
}

Result<CompiledProgram> Job::compileFile(const std::string &path, const LoweringOptions &options) {
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(path));
  return compileText(source->diags.fileName(), source->diags.text(), options);
}

Result<void *> Job::stream(uint32_t number) {
  BRAID_TRY(state_->expectOpen());
  if (number >= kMaxStreams)
    return badInput("expected a stream number below {}, got {}", kMaxStreams, number);
  Result<void *> stream = nullptr;
  for (int64_t i = 0; i < hosted(); ++i) {
    stream = state_->cluster->device(firstRank() + i).callerStream(number);
    if (!stream)
      break;
  }
  return stream;
}

Status Job::synchronize() {
  BRAID_TRY(state_->expectOpen());
  return state_->cluster->synchronize();
}

Status Job::commit() {
  BRAID_TRY(state_->expectOpen());
  state_->note(JobCall::Commit);
  BRAID_TRY(synchronize());
  return state_->cluster->commit();
}

/// Either all ranks close the job or none does, because releasing resources is collective.
Status Job::close() {
  BRAID_TRY(state_->expectOwnProcess());
  if (!state_->cluster)
    return Status::ok();
  state_->note(JobCall::Close);
  BRAID_TRY(synchronize());
  BRAID_TRY(state_->expectNothingHeld());
  BRAID_TRY(state_->cluster->commit());
  // The watchdog reads the Plans of ended sessions until the cluster is destroyed.
  const Sessions ended = std::exchange(state_->ended, {});
  state_->showPlans();
  std::unique_ptr<Cluster> cluster;
  {
    std::lock_guard lock(state_->ending);
    cluster = std::move(state_->cluster);
  }
  return Status::ok();
}

Status Job::fail(const Status &cause) {
  BRAID_TRY(state_->expectOwnProcess());
  if (!state_->cluster)
    return cause;
  return state_->fail(cause);
}

void Job::abort(const Status &cause) {
  if (state_->isForked())
    return;
  std::lock_guard lock(state_->ending);
  if (state_->cluster)
    state_->cluster->control(firstRank()).abort(cause);
}

bool Job::isStuck() const { return state_->cluster && state_->cluster->isStuck(); }

JobUsage Job::usage() const { return state_->usage(); }

Status Job::giveBack() {
  BRAID_TRY(state_->expectOpen());
  state_->note(JobCall::GiveBack);
  BRAID_TRY(state_->cluster->onEveryRank([this](int64_t rank) {
    return braid::giveBack(state_->cluster->device(rank), state_->cluster->control(rank));
  }));
  return state_->settle();
}

int64_t Job::mark() {
  if (!state_->expectOpen().isOk() || state_->isCaptured)
    return 0;
  bool isMarked = true;
  for (int64_t i = 0; i < hosted(); ++i)
    isMarked &= state_->cluster->device(firstRank() + i).mark(state_->marks + 1);
  return isMarked ? ++state_->marks : 0;
}

int64_t Job::passedMarks() const {
  if (!state_->expectOpen().isOk())
    return 0;
  int64_t passed = state_->marks;
  for (int64_t i = 0; i < hosted(); ++i)
    passed = std::min(passed, state_->cluster->device(firstRank() + i).passedMarks());
  return passed;
}

} // namespace braid
