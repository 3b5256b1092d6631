//===- api/job.cpp - the ranks that run programs together -------------------------------------===//

#include "api/ranks/job_state.h"

#include "api/compile/compiled_program.h"
#include "api/ranks/run.h"
#include "ir/failure.h"
#ifdef BRAID_HAS_CUDA
#include "backends/nccl/nccl_backend.h"
#endif

#include <fmt/ranges.h>

#include <atomic>
#include <iterator>
#include <sstream>

namespace braid {
namespace {

Result<Backend> findBackend(const std::string &name) {
  const BackendRegistry registry = builtinBackends();
  if (const Backend *backend = registry.find(name))
    return *backend;
  return unsupported("expected a backend of this build ({}), got '{}'",
                     fmt::join(registry.names(), ", "), name);
}

ClusterOptions clusterOptions(const JobOptions &options, int64_t ranks) {
  return {.ranks = ranks,
          .timeout = options.timeout,
          .scheduleSeed = options.scheduleSeed,
          .reproducible = options.reproducible};
}

/// A GPU that was asked for by number is the cuda backend's own matter.
Backend withDevice(Backend backend, [[maybe_unused]] const JobOptions &options) {
#ifdef BRAID_HAS_CUDA
  const auto join = backend.transport == Transport::Messages ? joinNccl : joinGpus;
  if (options.device && backend.join && !backend.isOnHost)
    backend.join = [join, device = *options.device](const ClusterOptions &cluster,
                                                    std::unique_ptr<Client> client) {
      return join(cluster, std::move(client), {.device = device});
    };
#endif
  return backend;
}

Result<Place> toPlace(const JobPlace &given) {
  if (given.ranks < 1 || given.rank < 0 || given.rank >= given.ranks)
    return badInput("JobOptions::place: expected a rank from 0 to {}, got {} of {}",
                    given.ranks - 1, given.rank, given.ranks);
  if (given.name.empty())
    return badInput("JobOptions::place: expected a name for the job, got none");
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
    return badInput("expected to be started as a rank, by torchrun, mpirun or srun, or with "
                    "BRAID_RANK and BRAID_RANKS set");
  if (options.ranks != 0 && options.ranks != place->ranks)
    return badInput("expected {} ranks, but {} says that there are {}", options.ranks,
                    place->source, place->ranks);
  return *place;
}

} // namespace

/// The same on all ranks, which make sessions alike.
Status Job::Impl::checkBound(int64_t bytes, const std::string &program) const {
  if (options.mostBytes == 0 || usage.most + bytes <= options.mostBytes)
    return Status::ok();
  return unsupported("@{} takes {} bytes on a rank, where sessions hold {} already: expected "
                     "{} at most, as JobOptions::mostBytes says",
                     program, bytes, usage.most, options.mostBytes);
}

void Job::Impl::showPlans() {
  mesh->cluster().setPlans({});
  if (rank)
    rank->setPlans({});
  for (const Sessions *all : {&ended, &sessions})
    for (const auto &[number, session] : *all)
      showPlans(session);
}

void Job::Impl::showPlans(const SessionPlans &session) {
  mesh->cluster().setPlans(session.plans);
  if (rank)
    rank->setPlans(session.plans);
}

void Job::Impl::hidePlans(const SessionPlans &session) {
  mesh->cluster().forgetPlans(session.plans);
  if (rank)
    rank->forgetPlans(session.plans);
}

void Job::Impl::note(JobCall call, uint32_t program) {
  for (int64_t i = 0; i < mesh->hosted(); ++i)
    mesh->control(mesh->firstHosted() + i).noteCall(call, program);
}

Sessions::iterator Job::Impl::add(SessionPlans session) {
  nextCommand = numberCommands(session.plans, nextCommand);
  usage.sessions += 1;
  usage.bytes += session.bytes;
  usage.most += session.most;
  const auto added = sessions.emplace(nextSession++, std::move(session)).first;
  showPlans(added->second);
  return added;
}

void Job::Impl::end(Sessions::iterator session) {
  const auto &[number, own] = *session;
  usage.sessions -= 1;
  usage.bytes -= own.bytes;
  usage.most -= own.most;
  usage.inGraphs -= own.isInGraph ? own.most : 0;
  captured.erase(number);
  ended.insert(sessions.extract(session));
}

Status Job::Impl::settle(SessionPlans *newest) {
  for (const auto &[number, session] : ended)
    hidePlans(session);
  ended.clear();
  usage.mostHeld = 0;
  std::set<uint64_t> held;
  std::atomic<int64_t> ofPlansHere{0}; ///< bytes of the Plans of `newest`
  int64_t ofPlan = 0;                  ///< at most
  auto ask = [&](int64_t number) {
    Device &device = mesh->device(number);
    const int64_t ofMine =
        newest ? device.planBytes(newest->plans[static_cast<size_t>(number)]) : 0;
    ofPlansHere += ofMine;
    std::string mine = fmt::format("{} {} ", device.heldBytes(), ofMine);
    for (uint64_t session : captured)
      if (device.graphs()->isInCallersGraph(
              sessions.at(session).plans[static_cast<size_t>(number)]))
        mine += fmt::format("{} ", session);
    const std::vector<std::string> all = BRAID_TRY(mesh->control(number).allGather(mine));
    if (number != mesh->firstHosted())
      return Status::ok();
    for (const std::string &each : all) {
      std::istringstream numbers(each);
      int64_t bytes = 0, ofTheirs = 0;
      numbers >> bytes >> ofTheirs;
      usage.mostHeld = std::max(usage.mostHeld, bytes);
      ofPlan = std::max(ofPlan, ofTheirs);
      held.insert(std::istream_iterator<uint64_t>(numbers), {});
    }
    return Status::ok();
  };
  BRAID_TRY(mesh->onEveryRank(ask));
  if (newest) {
    newest->bytes += ofPlansHere;
    usage.bytes += ofPlansHere;
    newest->most += ofPlan;
    usage.most += ofPlan;
  }
  auto note = [&](uint64_t number, bool isInGraph) {
    const auto found = sessions.find(number); // or it has ended
    if (found == sessions.end() || found->second.isInGraph == isInGraph)
      return;
    found->second.isInGraph = isInGraph;
    usage.inGraphs += isInGraph ? found->second.most : -found->second.most;
  };
  for (uint64_t number : std::exchange(inGraphs, {held.begin(), held.end()}))
    note(number, held.count(number) > 0);
  for (uint64_t number : inGraphs)
    note(number, true);
  return Status::ok();
}

Status Job::Impl::check(const Compiled &compiled, const Configuration &run) const {
  const Program &program = *compiled.program;
  if (program.ranks() != mesh->ranks())
    return badInput("@{} is for {} ranks, but the job has {}", program.name(), program.ranks(),
                    mesh->ranks());
  if (compiled.isReproducible && !options.reproducible)
    return badInput("@{} was compiled for reproducible results: expected JobOptions::reproducible",
                    program.name());
  return checkModes(run, backend);
}

Result<CompiledProgram> Job::Impl::choose(const std::string &name, const std::string &text,
                                          const CompileOptions &given, double seconds) {
  note(JobCall::Choose);
  std::string warnings;
  ChooseOptions how = chooseOptions(backend, rank != nullptr, given);
  how.launchModes = {launchModeOf(given.schedule.all)};
  if (options.scheduleSeed)
    how.cacheKey += ", in a drawn order";
  how.seconds = seconds;
  how.usesKnown = true;
  how.warn = [&](const std::string &line) { warnings += "braid: warning: " + line + "\n"; };
  const Result<ScheduleChoice> choice =
      braid::choose(*mesh, name, text, how, trials, rank ? rank->barrier() : nullptr);
  showPlans();
  if (!choice)
    return choice.status();
  trials.clear();
  auto program = BRAID_TRY(CompiledProgram::Impl::make(name, text, applyTo(given, choice->best())));
  program->choice = fmt::format("{}: {}", choice->best().str(), choice->reason);
  if (mesh->firstHosted() == 0)
    program->trials = warnings + explain(*choice);
  return CompiledProgram(std::move(program));
}

Job::Job(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Job::~Job() {
  if (impl_->isForked())
    (void)impl_.release();
}

Result<std::shared_ptr<Job>> Job::create(const JobOptions &options) {
  const Backend backend = BRAID_TRY(findBackend(options.backend));
  if (options.ranks < 1)
    return badInput("expected at least 1 rank, got {}", options.ranks);
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->backend = backend;
  impl->mesh = BRAID_TRY(LocalMesh::create(backend, clusterOptions(options, options.ranks)));
  return std::shared_ptr<Job>(new Job(std::move(impl)));
}

Result<std::shared_ptr<Job>> Job::join(const JobOptions &options) {
  const Backend backend = withDevice(BRAID_TRY(findBackend(options.backend)), options);
  const Place place = BRAID_TRY(findOwnPlace(options));
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->backend = backend;
  // Processes that a launcher has started end with their job; others may go on without it.
  const Stragglers stragglers = options.place ? Stragglers::Leave : Stragglers::Kill;
  impl->rank = BRAID_TRY(JobRank::join(place, options.timeout, stragglers));
  auto mesh =
      LocalMesh::join(backend, clusterOptions(options, place.ranks), impl->rank->takeClient());
  if (!mesh)
    return impl->rank->fail(mesh.status());
  impl->mesh = std::move(*mesh);
  return std::shared_ptr<Job>(new Job(std::move(impl)));
}

int64_t Job::ranks() const { return impl_->mesh ? impl_->mesh->ranks() : 0; }
int64_t Job::firstRank() const { return impl_->mesh ? impl_->mesh->firstHosted() : 0; }
int64_t Job::hosted() const { return impl_->mesh ? impl_->mesh->hosted() : 0; }

/// Without anybody's choice a GPU's schedule is measured, and that of the host's own cores, whose
/// times vary, is the default. Any schedule shows what is wrong with the text, before ranks meet.
Result<CompiledProgram> Job::compileText(const std::string &name, const std::string &text,
                                         const LoweringOptions &options) {
  BRAID_TRY(impl_->expectOpen());
  LoweringOptions others = options;
  const bool isAsked = takeAuto(others.schedule);
  CompileOptions given = BRAID_TRY(toCompileOptions(others));
  given.ranks = options.ranks.value_or(ranks());
  given.transport = impl_->backend.transport;
  auto program = BRAID_TRY(CompiledProgram::Impl::make(
      name, text, isAsked ? applyTo(given, presets().front().fields) : given));
  BRAID_TRY(impl_->check(program->compiled, program->schedule.all));
  const bool isOpen = options.schedule.empty() && program->compiled.isLowered;
  if (!isAsked && (!isOpen || !choosesByItself(impl_->backend)))
    return CompiledProgram(std::move(program));
  if (!(options.autoSeconds >= 0))
    return badInput("expected autoSeconds to be at least 0, got {}", options.autoSeconds);
  return impl_->choose(name, text, given, options.autoSeconds);
}

Result<CompiledProgram> Job::compileFile(const std::string &path, const LoweringOptions &options) {
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(path));
  return compileText(source->diags.fileName(), source->diags.text(), options);
}

Result<void *> Job::stream(uint32_t number) {
  BRAID_TRY(impl_->expectOpen());
  if (number >= kMaxStreams)
    return badInput("expected a stream below {}, got {}", kMaxStreams, number);
  Result<void *> stream = nullptr;
  for (int64_t i = 0; i < hosted(); ++i) {
    stream = impl_->mesh->device(firstRank() + i).callerStream(number);
    // A thread that one rank has kept for it may be the one that the job's next call needs.
    for (int64_t made = 0; !stream && made < i; ++made)
      impl_->mesh->device(firstRank() + made).undoCallerStream(number);
    if (!stream)
      break;
  }
  return stream;
}

Status Job::synchronize() {
  BRAID_TRY(impl_->expectOpen());
  return impl_->mesh->synchronize();
}

Status Job::commit() {
  BRAID_TRY(impl_->expectOpen());
  impl_->note(JobCall::Commit);
  BRAID_TRY(synchronize());
  return impl_->mesh->commit();
}

Status Job::Impl::expectOwnProcess() const {
  return isForked() ? badInput("expected the process that joined; a fork cannot use its job")
                    : Status::ok();
}

Status Job::Impl::expectOpen() const {
  BRAID_TRY(expectOwnProcess());
  return mesh ? Status::ok() : badInput("the job is closed");
}

/// NCCL would wait for ever for graphs, and what they replay would use memory that is gone.
std::string Job::Impl::whatIsHeld(int64_t number) const {
  if (!sessions.empty())
    return fmt::format("{} of the job's sessions live: end them", sessions.size());
  Graphs *graphs = mesh->device(number).graphs();
  const int64_t held = graphs ? graphs->callersGraphs() : 0;
  return held == 0 ? ""
                   : fmt::format("{} {} that runs of this job were captured into are alive: "
                                 "destroy them (cudaGraphExecDestroy, cudaGraphDestroy)",
                                 held, held == 1 ? "graph" : "graphs");
}

/// Each rank's text about what it holds, in close(). BadInput, on all ranks, if one is in another
/// call.
Result<std::vector<std::string>> Job::Impl::askWhatIsHeld() {
  constexpr llvm::StringLiteral kCall = "close: ";
  std::vector<std::string> held;
  auto ask = [&](int64_t number) {
    std::vector<std::string> all =
        BRAID_TRY(mesh->control(number).allGather(kCall.str() + whatIsHeld(number)));
    for (size_t other = 0; other < all.size(); ++other)
      if (llvm::StringRef(all[other]).take_front(kCall.size()) != kCall)
        return badInput("expected all ranks to close the job, but rank {} is in another call",
                        other);
    if (number == mesh->firstHosted())
      for (const std::string &each : all)
        held.push_back(each.substr(kCall.size()));
    return Status::ok();
  };
  BRAID_TRY(mesh->onEveryRank(ask));
  return held;
}

/// All ranks go on or none does: to give back is collective.
Status Job::close() {
  BRAID_TRY(impl_->expectOwnProcess());
  if (!impl_->mesh)
    return Status::ok();
  impl_->note(JobCall::Close);
  BRAID_TRY(synchronize());
  const std::vector<std::string> held = BRAID_TRY(impl_->askWhatIsHeld());
  for (size_t number = 0; number < held.size(); ++number)
    if (!held[number].empty())
      return badInput("rank {}: {}, and close again", number, held[number]);
  BRAID_TRY(impl_->mesh->commit());
  // The watchdog looks at them as long as there is one.
  const Sessions ended = std::exchange(impl_->ended, {});
  impl_->showPlans();
  std::unique_ptr<LocalMesh> mesh;
  {
    std::lock_guard lock(impl_->ending);
    mesh = std::move(impl_->mesh);
  }
  return Status::ok();
}

Status Job::fail(const Status &cause) {
  BRAID_TRY(impl_->expectOwnProcess());
  if (!impl_->mesh)
    return cause;
  const Status first = impl_->mesh->fail(cause);
  return impl_->rank ? impl_->rank->fail(first) : first;
}

void Job::abort(const Status &cause) {
  if (impl_->isForked())
    return;
  std::lock_guard lock(impl_->ending);
  if (impl_->mesh)
    impl_->mesh->control(firstRank()).abort(cause);
}

bool Job::isStuck() const { return impl_->mesh && impl_->mesh->isStuck(); }

JobUsage Job::usage() const {
  JobUsage usage = impl_->usage;
  for (int64_t i = 0; impl_->mesh && i < hosted(); ++i)
    usage.held += impl_->mesh->device(firstRank() + i).heldBytes();
  return usage;
}

Status Job::giveBack() {
  BRAID_TRY(impl_->expectOpen());
  impl_->note(JobCall::GiveBack);
  BRAID_TRY(impl_->mesh->onEveryRank([this](int64_t rank) {
    return braid::giveBack(impl_->mesh->device(rank), impl_->mesh->control(rank));
  }));
  return impl_->settle();
}

int64_t Job::mark() {
  if (!impl_->expectOpen().isOk() || impl_->isCaptured)
    return 0;
  bool isMarked = true;
  for (int64_t i = 0; i < hosted(); ++i)
    isMarked &= impl_->mesh->device(firstRank() + i).mark(impl_->marks + 1);
  return isMarked ? ++impl_->marks : 0;
}

int64_t Job::passedMarks() const {
  if (!impl_->expectOpen().isOk())
    return 0;
  int64_t passed = impl_->marks;
  for (int64_t i = 0; i < hosted(); ++i)
    passed = std::min(passed, impl_->mesh->device(firstRank() + i).passedMarks());
  return passed;
}

} // namespace braid
