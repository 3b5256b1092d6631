//===- api/ranks/job_state.cpp - the ranks of a job in this process ---------------------------===//

#include "api/ranks/job_state.h"

#include "api/ranks/backends.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <iterator>
#include <sstream>

namespace braid {

Result<std::unique_ptr<JobState>> JobState::create(const Backend &backend,
                                                   const ClusterOptions &options) {
  if (!backend.create)
    return unsupported("the ranks of backend '{}' are processes, not threads of one process",
                       backend.name);
  auto state = std::make_unique<JobState>();
  state->backend = backend;
  state->options = options;
  state->cluster = BRAID_TRY(backend.create(options));
  return state;
}

Result<std::unique_ptr<JobState>> JobState::join(const Backend &backend,
                                                 const ClusterOptions &options,
                                                 std::unique_ptr<JobRank> rank) {
  if (!backend.join)
    return rank->fail(
        unsupported("expected a backend whose ranks can be processes, got '{}'", backend.name));
  auto state = std::make_unique<JobState>();
  state->backend = backend;
  state->options = options;
  state->rank = std::move(rank);
  Result<std::unique_ptr<Cluster>> cluster = backend.join(options, state->rank->takeClient());
  if (!cluster)
    return state->rank->fail(cluster.status());
  state->cluster = std::move(*cluster);
  return state;
}

Result<std::unique_ptr<JobState>>
JobState::join(const Backend &backend, const ClusterOptions &options, const Place &place) {
  return join(backend, options, BRAID_TRY(JobRank::join(place, options.timeout)));
}

/// Sessions' resources must be released before the devices, which the Plans must outlive.
JobState::~JobState() {
  for (auto &[number, session] : sessions)
    session.prepared.clear();
}

Status JobState::expectOwnProcess() const {
  return isForked() ? badInput("only the process that joined a job can use it, not a fork of it")
                    : Status::ok();
}

Status JobState::expectOpen() const {
  BRAID_TRY(expectOwnProcess());
  return cluster ? Status::ok() : badInput("the job is closed");
}

Status JobState::fail(const Status &cause) {
  const Status first = cluster->fail(cause);
  return rank ? rank->memory().failure() : first;
}

Result<std::vector<std::string>>
JobState::gather(llvm::function_ref<std::string(int64_t number)> textOf) {
  std::vector<std::string> all;
  auto gatherOnRank = [&](int64_t number) {
    auto texts = BRAID_TRY(cluster->control(number).allGather(textOf(number)));
    if (number == cluster->firstHosted())
      all = std::move(texts);
    return Status::ok();
  };
  BRAID_TRY(cluster->onEveryRank(gatherOnRank));
  return all;
}

Barrier JobState::barrier() {
  if (!rank)
    return nullptr;
  return [this] { return rank->memory().spinUntilAllCome(cluster->firstHosted()); };
}

void JobState::note(JobCall call, uint32_t program) {
  for (int64_t i = 0; i < cluster->hosted(); ++i)
    cluster->control(cluster->firstHosted() + i).noteCall(call, program);
}

Status JobState::check(const Compiled &compiled, const Configuration &run) const {
  const Program &program = *compiled.program;
  if (program.ranks() != cluster->ranks())
    return badInput("@{} is for {} ranks, but the job has {}", program.name(), program.ranks(),
                    cluster->ranks());
  if (compiled.isReproducible && !options.reproducible)
    return badInput("@{} was compiled for reproducible results: set JobOptions::reproducible",
                    program.name());
  return checkModes(run, backend);
}

Result<std::shared_ptr<ProgramState>> JobState::choose(const Diagnostics &text, ChooseOptions how) {
  // Messages about a rank that chooses name the text, as they name the program of a run.
  std::vector<Plan> named(static_cast<size_t>(cluster->ranks()));
  for (size_t number = 0; number < named.size(); ++number) {
    named[number].program = text.fileName();
    named[number].rank = static_cast<int64_t>(number);
    named[number].commands.resize(1);
  }
  (void)numberCommands(named, nextCommand);
  showPlans(named);
  chosenFor.swap(named); // messages may name the previous choice until here
  note(JobCall::Choose, nextCommand);
  std::string warnings;
  if (!how.warn)
    how.warn = [&](const std::string &line) { warnings += "braid: warning: " + line + "\n"; };
  if (options.queues != 0)
    how.cacheKey += fmt::format(", {} queues", options.queues);
  if (options.scheduleSeed)
    how.cacheKey += ", in a random order";
  auto choice = braid::choose(*cluster, text.fileName(), text.text(), how, trials, barrier());
  if (llvm::any_of(trials, [](const TimedPlans &plans) { return !plans.empty(); }))
    showPlans();
  if (!choice)
    return choice.status();
  trials.clear();
  auto program = BRAID_TRY(ProgramState::make(parseSource(text.fileName(), text.text()),
                                              applyTo(how.given, choice->schedule)));
  program->choice = fmt::format("{}: {}", choice->schedule.str(), choice->reason);
  if (isRank0Here())
    program->trials = warnings + (how.timed ? explain(*choice, SIZE_MAX) : explain(*choice));
  return program;
}

//===- Sessions -------------------------------------------------------------------------------===//

namespace {

int64_t bytesOf(const Plan &plan) {
  return plan.symmetricBytes + plan.deviceBytes + static_cast<int64_t>(plan.flags) * kFlagStride;
}

} // namespace

/// The result is the same on all ranks, because all ranks have the same sessions.
Status JobState::checkBound(int64_t bytes, const std::string &program) const {
  const int64_t most = usage().most;
  if (mostBytes == 0 || most + bytes <= mostBytes)
    return Status::ok();
  return unsupported("@{} needs {} bytes on a rank, and open sessions hold {}: "
                     "JobOptions::mostBytes allows {} in total",
                     program, bytes, most, mostBytes);
}

void JobState::showPlans() {
  cluster->setPlans({});
  if (rank)
    rank->setPlans({});
  for (const Sessions *all : {&ended, &sessions})
    for (const auto &[number, session] : *all)
      showPlans(session.plans);
}

void JobState::showPlans(llvm::ArrayRef<Plan> plans) {
  cluster->setPlans(plans);
  if (rank)
    rank->setPlans(plans);
}

llvm::ArrayRef<Plan> JobState::newestPlans() const {
  for (const Sessions *all : {&sessions, &ended})
    if (const auto found = all->find(nextSession - 1); found != all->end())
      return found->second.plans;
  return {};
}

Sessions::iterator JobState::add(std::vector<Plan> plans) {
  SessionPlans session{std::move(plans), {}};
  for (const Plan &plan : session.plans) {
    session.bytes += cluster->hosts(plan.rank) ? bytesOf(plan) : 0;
    session.most = std::max(session.most, bytesOf(plan));
  }
  nextCommand = numberCommands(session.plans, nextCommand);
  const auto added = sessions.emplace(nextSession++, std::move(session)).first;
  showPlans(added->second.plans);
  return added;
}

void JobState::end(Sessions::iterator session) {
  auto &[number, own] = *session;
  own.prepared.clear();
  captured.erase(number);
  ended.insert(sessions.extract(session));
}

Result<Sessions::iterator> JobState::prepare(std::vector<Plan> plans, TransferMode mode,
                                             UnknownGemms unknown) {
  BRAID_TRY(checkHosts(*cluster, plans.front()));
  int64_t most = 0;
  for (const Plan &plan : plans)
    most = std::max(most, bytesOf(plan));
  BRAID_TRY(checkBound(most, plans.front().program));
  const Sessions::iterator added = add(std::move(plans));
  Status status = prepareRanks(added->second, mode, unknown);
  if (status.isOk())
    return added;
  end(added);
  return status;
}

Status JobState::prepareRanks(SessionPlans &session, TransferMode mode, UnknownGemms unknown) {
  note(JobCall::Prepare, session.plans.front().firstCommand);
  session.prepared.resize(static_cast<size_t>(cluster->hosted()));
  auto prepareRank = [&](int64_t number) {
    const Plan &plan = session.plans[static_cast<size_t>(number)];
    session.prepared[static_cast<size_t>(number - cluster->firstHosted())] = BRAID_TRY(
        braid::prepare(plan, cluster->device(number), cluster->control(number), mode, unknown));
    return Status::ok();
  };
  BRAID_TRY(cluster->onEveryRank(prepareRank));
  return settle(&session);
}

/// Returns "BYTES PLANBYTES SESSION SESSION ...": the rank's memory in bytes, the part used by the
/// Plan of `newest`, and the numbers of the sessions in callers' graphs.
std::string JobState::describeHeld(int64_t number, const SessionPlans *newest) const {
  Device &device = cluster->device(number);
  const auto index = static_cast<size_t>(number);
  std::string text = fmt::format("{} {} ", device.heldBytes(),
                                 newest ? device.planBytes(newest->plans[index]) : 0);
  for (uint64_t session : captured)
    if (device.graphs()->isInCallersGraph(sessions.at(session).plans[index]))
      text += fmt::format("{} ", session);
  return text;
}

Status JobState::settle(SessionPlans *newest) {
  for (const auto &[number, session] : ended) {
    cluster->forgetPlans(session.plans);
    if (rank)
      rank->forgetPlans(session.plans);
  }
  ended.clear();
  const std::vector<std::string> all =
      BRAID_TRY(gather([&](int64_t number) { return describeHeld(number, newest); }));
  std::set<uint64_t> inGraphs;
  int64_t planBytesHere = 0, mostPlanBytes = 0;
  mostHeld = 0;
  for (size_t number = 0; number < all.size(); ++number) {
    std::istringstream text(all[number]);
    int64_t held = 0, planBytes = 0;
    text >> held >> planBytes;
    mostHeld = std::max(mostHeld, held);
    mostPlanBytes = std::max(mostPlanBytes, planBytes);
    planBytesHere += cluster->hosts(static_cast<int64_t>(number)) ? planBytes : 0;
    inGraphs.insert(std::istream_iterator<uint64_t>(text), {});
  }
  if (newest) {
    newest->bytes += planBytesHere;
    newest->most += mostPlanBytes;
  }
  for (auto &[number, session] : sessions)
    session.isInGraph = inGraphs.count(number) > 0;
  return Status::ok();
}

JobUsage JobState::usage() const {
  JobUsage usage{.sessions = static_cast<int64_t>(sessions.size()), .mostHeld = mostHeld};
  for (const auto &[number, session] : sessions) {
    usage.bytes += session.bytes;
    usage.most += session.most;
    usage.inGraphs += session.isInGraph ? session.most : 0;
  }
  for (int64_t i = 0; cluster && i < cluster->hosted(); ++i)
    usage.held += cluster->device(cluster->firstHosted() + i).heldBytes();
  return usage;
}

//===- Closing --------------------------------------------------------------------------------===//

/// Returns why the job cannot be closed, or "": NCCL would hang, or graphs would use freed memory.
std::string JobState::whatIsHeld(int64_t number) const {
  if (!sessions.empty())
    return fmt::format("still has {} of its sessions; close them first", sessions.size());
  Graphs *graphs = cluster->device(number).graphs();
  const int64_t held = graphs ? graphs->callersGraphs() : 0;
  return held == 0 ? ""
                   : fmt::format("still has {} {} with captured runs; destroy them first "
                                 "(cudaGraphExecDestroy, cudaGraphDestroy)",
                                 held, held == 1 ? "graph" : "graphs");
}

Result<std::vector<std::string>> JobState::askWhatIsHeld() {
  constexpr llvm::StringLiteral kCall = "close: ";
  std::vector<std::string> held =
      BRAID_TRY(gather([&](int64_t number) { return kCall.str() + whatIsHeld(number); }));
  for (size_t number = 0; number < held.size(); ++number) {
    if (llvm::StringRef(held[number]).take_front(kCall.size()) != kCall)
      return cluster->fail(
          badInput("expected all ranks to close the job, but rank {} is in another call", number));
    held[number].erase(0, kCall.size());
  }
  return held;
}

} // namespace braid
