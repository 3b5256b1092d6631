//===- api/ranks/job_state.cpp - the ranks of a job in this process ---------------------------===//

#include "api/ranks/job_state.h"

#include "api/ranks/backends.h"
#include "ir/counted.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <sstream>

namespace braid {

Result<std::unique_ptr<JobState>> JobState::create(const Backend &backend,
                                                   const ClusterOptions &options) {
  if (!backend.create)
    return unsupported("backend '{}' cannot run ranks as threads of a single process; each rank "
                       "must be a separate process",
                       backend.name);
  auto state = std::make_unique<JobState>(backend, options);
  state->cluster = BRAID_TRY(backend.create(options));
  state->trials.resize(static_cast<size_t>(options.ranks));
  return state;
}

Result<std::unique_ptr<JobState>> JobState::join(const Backend &backend,
                                                 const ClusterOptions &options,
                                                 std::unique_ptr<JobRank> rank) {
  if (!backend.join)
    return rank->fail(
        unsupported("backend '{}' cannot run ranks as separate processes", backend.name));
  auto state = std::make_unique<JobState>(backend, options);
  state->rank = std::move(rank);
  Result<std::unique_ptr<Cluster>> cluster = backend.join(options, state->rank->takeClient());
  if (!cluster)
    return state->rank->fail(cluster.status());
  state->cluster = std::move(*cluster);
  state->trials.resize(1);
  return state;
}

Result<std::unique_ptr<JobState>>
JobState::join(const Backend &backend, const ClusterOptions &options, const Place &place) {
  return join(backend, options, BRAID_TRY(JobRank::join(place, options.timeout)));
}

/// The sessions' resources must be released before the devices, and the Plans after the devices.
JobState::~JobState() {
  for (auto &[number, session] : sessions)
    session.prepared.clear();
}

Status JobState::expectOwnProcess() const {
  return isForked()
             ? badInput(
                   "a job can be used only by the process that joined it, not by a forked child")
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

PlanTimer JobState::timerOn(int64_t number) {
  Barrier barrier;
  if (rank)
    barrier = [this, number] { return rank->memory().spinUntilAllCome(number); };
  const auto index = static_cast<size_t>(number - cluster->firstHosted());
  return {*cluster, number, trials[index], std::move(barrier)};
}

Status JobState::recycleTrials(int64_t number) {
  BRAID_TRY(cluster->device(number).synchronize()); // also waits for earlier work
  if (trials[static_cast<size_t>(number - cluster->firstHosted())].empty())
    return Status::ok();
  BRAID_TRY(cluster->control(number).allGather("idle"));
  cluster->device(number).recycle();
  return Status::ok();
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
  // While a rank chooses a schedule, messages about the rank name the text instead of a program.
  std::vector<Plan> named(static_cast<size_t>(cluster->ranks()));
  for (size_t number = 0; number < named.size(); ++number) {
    named[number].program = text.fileName();
    named[number].rank = static_cast<int64_t>(number);
    named[number].commands.resize(1);
  }
  (void)numberCommands(named, nextCommand);
  showPlans(named);
  chosenFor.swap(named); // until here, messages may use the old Plans
  note(JobCall::Choose, nextCommand);
  std::string warnings;
  if (!how.warn)
    how.warn = [&](const std::string &line) { warnings += "braid: warning: " + line + "\n"; };
  if (options.queues != 0)
    how.cacheKey += fmt::format(", {} queues", options.queues);
  if (options.scheduleSeed)
    how.cacheKey += ", in a random order";
  std::optional<ScheduleChoice> choice;
  auto chooseOnRank = [&](int64_t number) {
    Device &device = cluster->device(number);
    // Replace the caller's stream, because CUDA's default stream cannot be captured.
    void *stream = BRAID_TRY(device.callerStream(0));
    BRAID_TRY(device.setCallerStream(stream, {}));
    {
      PlanTimer timer = timerOn(number);
      ScheduleChoice mine = BRAID_TRY(braid::choose(text.fileName(), text.text(), how, timer));
      if (number == cluster->firstHosted())
        choice = std::move(mine);
    }
    return recycleTrials(number);
  };
  const Status chosen = cluster->onEveryRank(chooseOnRank);
  if (llvm::any_of(trials, [](const TimedPlans &plans) { return !plans.empty(); }))
    showPlans();
  BRAID_TRY(chosen);
  for (TimedPlans &plans : trials)
    plans.clear();
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

void JobState::showPlans() {
  showPlans(llvm::ArrayRef<Plan>());
  for (const Sessions *all : {&ended, &sessions})
    for (const auto &[number, session] : *all)
      showPlans(session.plans);
}

void JobState::showPlans(llvm::ArrayRef<Plan> plans) {
  cluster->setPlans(plans);
  if (rank)
    rank->plans().add(plans);
}

void JobState::end(Sessions::iterator session) {
  session->second.prepared.clear();
  ended.insert(sessions.extract(session));
}

Result<Sessions::iterator> JobState::prepare(std::vector<Plan> plans, TransferMode mode,
                                             UnknownGemms unknown) {
  BRAID_TRY(checkHosts(*cluster, plans.front()));
  SessionPlans session{std::move(plans), {}};
  for (const Plan &plan : session.plans) {
    session.bytes += cluster->hosts(plan.rank) ? bytesOf(plan) : 0;
    session.most = std::max(session.most, bytesOf(plan));
  }
  // The result is the same on all ranks, because all ranks have the same sessions.
  if (const int64_t most = usage().most; mostBytes != 0 && most + session.most > mostBytes)
    return unsupported("@{} needs {} bytes per rank, and open sessions already use {}, but "
                       "JobOptions::mostBytes allows only {} in total",
                       session.plans.front().program, session.most, most, mostBytes);
  nextCommand = numberCommands(session.plans, nextCommand);
  const Sessions::iterator added = sessions.emplace(nextSession++, std::move(session)).first;
  SessionPlans &own = added->second;
  showPlans(own.plans);
  note(JobCall::Prepare, own.plans.front().firstCommand);
  own.prepared.resize(static_cast<size_t>(cluster->hosted()));
  Status status = cluster->onEveryRank([&](int64_t number) {
    const Plan &plan = own.plans[static_cast<size_t>(number)];
    own.prepared[static_cast<size_t>(number - cluster->firstHosted())] = BRAID_TRY(
        braid::prepare(plan, cluster->device(number), cluster->control(number), mode, unknown));
    return Status::ok();
  });
  if (status.isOk())
    status = settle(&own);
  if (status.isOk())
    return added;
  end(added);
  return status;
}

/// Returns "BYTES PLANBYTES SESSION SESSION ...": the rank's memory in bytes, the part used by the
/// Plan of `newest`, and the numbers of the sessions in callers' graphs.
std::string JobState::describeHeld(int64_t number, const SessionPlans *newest) const {
  Device &device = cluster->device(number);
  const auto index = static_cast<size_t>(number);
  std::string text = fmt::format("{} {} ", device.heldBytes(),
                                 newest ? device.planBytes(newest->plans[index]) : 0);
  for (const auto &[session, own] : sessions)
    if (own.isCaptured && device.graphs()->isInCallersGraph(own.plans[index]))
      text += fmt::format("{} ", session);
  return text;
}

Status JobState::settle(SessionPlans *newest) {
  for (const auto &[number, session] : ended) {
    cluster->forgetPlans(session.plans);
    if (rank)
      rank->plans().remove(session.plans);
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

/// Returns the reason why the job cannot be closed (NCCL would hang, or graphs would use freed
/// memory), or "" if it can.
std::string JobState::whatIsHeld(int64_t number) const {
  if (!sessions.empty())
    return fmt::format("still has {} of its sessions open; close all sessions first",
                       sessions.size());
  Graphs *graphs = cluster->device(number).graphs();
  const int64_t held = graphs ? graphs->callersGraphs() : 0;
  return held == 0 ? ""
                   : fmt::format("still has {} with captured runs; destroy all such graphs first "
                                 "(cudaGraphExecDestroy, cudaGraphDestroy)",
                                 counted(held, "graph"));
}

Status JobState::expectNothingHeld() {
  constexpr llvm::StringLiteral kCall = "close: ";
  const std::vector<std::string> held =
      BRAID_TRY(gather([&](int64_t number) { return kCall.str() + whatIsHeld(number); }));
  for (size_t number = 0; number < held.size(); ++number)
    if (!held[number].starts_with(kCall.str()))
      return cluster->fail(
          badInput("expected all ranks to close the job, but rank {} is in another call", number));
  for (size_t number = 0; number < held.size(); ++number)
    if (held[number] != kCall)
      return badInput("cannot close the job: rank {} {}", number,
                      held[number].substr(kCall.size()));
  return Status::ok();
}

} // namespace braid
