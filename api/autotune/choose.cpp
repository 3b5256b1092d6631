//===- api/autotune/choose.cpp - chooses the fastest schedule of a fusion ---------------------===//

#include "api/autotune/choose.h"

#include "api/autotune/candidate_search.h"
#include "api/autotune/default_schedules.h"
#include "api/autotune/kept_choices.h"
#include "api/autotune/trials.h"
#include "api/compile/plans.h"
#include "ir/failure.h"
#include "runtime/execute/handshake.h"
#include "runtime/job/bootstrap/environment.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <limits>
#include <thread>

namespace braid {
namespace {

/// Must be increased when measuring changes so much that stored measurements become invalid.
constexpr int kModelVersion = 6;

/// Returns the parts of the question besides the fusion and the time for trials.
std::vector<Choice> questionOf(const ChooseOptions &options) {
  std::string launchModes, transferModes, transports;
  for (LaunchMode mode : options.launchModes)
    launchModes += name(mode).str() + " ";
  for (TransferMode each : options.transferModes)
    transferModes += str(each) + "; ";
  for (Transport each : options.transports)
    transports += rowOf(Knob::DataPlane).str(static_cast<int64_t>(each)) + "; ";
  std::vector<Choice> question;
  for (const KnobRow &row : allKnobs()) {
    const std::optional<int64_t> value = options.given.schedule.all.get(row.knob);
    question.push_back({row.name, value ? row.str(value) : "open"});
  }
  question.push_back(
      {"schedule of stages", Configurations{{}, options.given.schedule.stages}.str()});
  question.push_back({"reproducible", options.given.reproducible ? "yes" : "no"});
  question.push_back({"time-best", options.timed ? std::to_string(*options.timed) : "open"});
  question.push_back({"transfer modes", transferModes});
  question.push_back({"launch modes", launchModes});
  question.push_back({"transports", transports});
  return question;
}

/// Returns the limits for trials of `seconds` for a stage, or no time limit if the user set a
/// number of candidates. Several stages share the memory that a job has for prepared programs.
TimingLimits limitsFor(std::optional<int64_t> timed, size_t stages, double seconds) {
  TimingLimits limits = timed ? TimingLimits() : TimingLimits::within(seconds);
  limits.most = std::max(limits.least, limits.most / stages);
  if (!timed)
    return limits;
  limits.least = limits.most = static_cast<size_t>(std::max<int64_t>(*timed, 0));
  limits.window = std::numeric_limits<double>::infinity();
  return limits;
}

/// Returns true if messages do not contradict the given knobs: messages have no protocol, no
/// transfer mode, and no fixed order of additions.
bool mayBeMessages(const CompileOptions &given) {
  auto isOpen = [](const Configuration &config) { return !knobOfPeerMemoryIn(config); };
  return !given.reproducible && isOpen(given.schedule.all) &&
         llvm::all_of(given.schedule.stages,
                      [&](const Configurations::OfStage &each) { return isOpen(each.config); });
}

/// Removes the transports that contradict the given one.
void narrowTransports(ChooseOptions &options) {
  const Configuration &given = options.given.schedule.all;
  if (given.get(Knob::DataPlane))
    options.transports = {transportOf(given, Transport::PeerMemory)};
  else if (options.transports.size() > 1 && !mayBeMessages(options.given))
    options.transports.resize(1);
}

/// Returns `options` without modes and transports that contradict the given ones or the device.
ChooseOptions narrowed(ChooseOptions options, PlanTimer &timer) {
  const PeerMemory &peers = *timer.device().peerMemory();
  options.given.ranks = timer.ranks();
  narrowModes(options.given.schedule.all, options);
  narrowTransports(options);
  if (options.transports == std::vector{Transport::Messages}) {
    options.transferModes = {TransferMode()};
    options.cacheKey += ", messages alone"; // its model has no costs of peers' memory
  }
  if (options.transferModes.empty())
    options.transferModes = transferModesOf([&](TransferMode mode) { return peers.offers(mode); });
  // Memory is not varied: memory of all libraries is equally fast.
  for (TransferMode &mode : options.transferModes)
    mode.memory = transferModeOf(options.given.schedule.all).memory;
  // Reproducible GEMMs use other algorithms, whose times differ.
  if (options.given.reproducible)
    options.cacheKey += ", reproducible";
  return options;
}

class Chooser {
public:
  Chooser(const std::string &name, const std::string &text, const ChooseOptions &options,
          PlanTimer &timer)
      : text_(text), options_(narrowed(options, timer)), timer_(timer), model_(timer, options_),
        search_(name, text, options_.given, machine(),
                [&timer](const WorkProgress &) { timer.control().tick(); }) {}

  Result<ScheduleChoice> choose();

private:
  bool hasCopyEngines() const {
    return timer_.device().peerMemory()->offers({CopyBy::Engine, SignalBy::Default});
  }
  bool measures() const { return options_.timed || options_.seconds > 0; }
  PredictedMachine machine();
  Result<bool> learn(llvm::ArrayRef<JudgedCandidate> candidates);
  Status meet();
  Result<std::optional<ScheduleChoice>> findKept(const KeptChoices &kept);
  ScheduleChoice chooseDefault();
  Result<ScheduleChoice> chooseStage(size_t stage, const RunModes &modes, double seconds);
  Result<ScheduleChoice> chooseStages();
  ScheduleChoice atOnce(const Configurations &schedule, std::string reason,
                        std::string source) const;

  const std::string &text_;
  const ChooseOptions options_;
  PlanTimer &timer_;
  JobModel model_;
  CandidateSearch search_;
};

PredictedMachine Chooser::machine() {
  return {model_.model(), hasCopyEngines(),
          [](const Compiled &compiled) { return makePlans(compiled); },
          [this](llvm::ArrayRef<JudgedCandidate> candidates) { return learn(candidates); }};
}

/// Measures what the job's model lacks to predict the candidates.
Result<bool> Chooser::learn(llvm::ArrayRef<JudgedCandidate> candidates) {
  std::vector<PlanMatmul> shapes;
  for (const JudgedCandidate &each : candidates)
    llvm::append_range(shapes, each.plans->front().matmuls);
  return model_.addGemms(shapes);
}

/// Compares the questions of all ranks, which must be equal.
Status Chooser::meet() {
  std::string parameters;
  for (const auto &[parameter, value] : options_.given.parameters)
    parameters += fmt::format("{}={} ", parameter, value);
  std::vector<Choice> question = {{"fusion", text_}, {"parameters", parameters}};
  llvm::append_range(question, questionOf(options_));
  question.push_back({"entry", options_.given.entry.value_or("none")});
  question.push_back({"auto-seconds", fmt::format("{}", options_.seconds)});
  Result<std::vector<std::string>> all = timer_.control().allGather(encodeChoices(question));
  return all ? compareChoices(*all) : all.status();
}

/// Returns a choice without a search.
ScheduleChoice Chooser::atOnce(const Configurations &schedule, std::string reason,
                               std::string source) const {
  ScheduleChoice choice;
  choice.candidates.push_back({.candidate = schedule.all, .schedule = schedule});
  choice.fusion = search_.fusion().name();
  choice.ranks = timer_.ranks();
  choice.reason = std::move(reason);
  choice.source = std::move(source);
  return choice;
}

/// Returns the choice that rank 0 has stored for this fusion, or for the nearest one if nothing may
/// be measured. Equal on all ranks, because each of them lowers the same text.
Result<std::optional<ScheduleChoice>> Chooser::findKept(const KeptChoices &kept) {
  std::optional<KeptChoice> choice;
  if (const MeasurementCache *cache = model_.cache())
    choice = measures() ? kept.find(*cache) : kept.findNearest(*cache);
  const bool isEnough = choice && choice->seconds >= options_.seconds;
  const std::string text = BRAID_TRY(timer_.fromRankZero(isEnough ? choice->encode() : ""));
  choice = KeptChoice::decode(text);
  if (!choice || !search_.canLower(choice->schedule))
    return std::optional<ScheduleChoice>();
  ScheduleChoice found = atOnce(choice->schedule,
                                measures() ? "as chosen before on this machine"
                                           : "measured here for the nearest sizes",
                                "from " + model_.path());
  found.isKnown = true;
  return std::optional(std::move(found));
}

/// Chooses the first default schedule of each stage that can be lowered with the previous choices.
ScheduleChoice Chooser::chooseDefault() {
  StageChoices &choices = search_.choices();
  for (size_t stage = 0; hasCopyEngines() && stage < choices.count(); ++stage)
    for (const Configuration &schedule : defaultSchedules(search_.fusion(), choices.stage(stage))) {
      const Candidate candidate = choices.given(stage).over(schedule);
      if (!search_.canLower(choices.with(stage, candidate)))
        continue;
      choices.take(stage, candidate);
      break;
    }
  ScheduleChoice choice =
      atOnce(choices.with(0, choices.best(0)),
             "the default for these sizes, which were not measured", "not measured");
  choice.isDefault = true;
  return choice;
}

Result<ScheduleChoice> Chooser::chooseStage(size_t stage, const RunModes &modes, double seconds) {
  const StageChoices &choices = search_.choices();
  ScheduleChoice choice;
  std::vector<JudgedCandidate> &candidates = choice.candidates;
  candidates = BRAID_TRY(search_.search(stage, modes));
  if (candidates.size() > 1 && options_.timed.value_or(1) > 0)
    BRAID_TRY(runTrials(choice, limitsFor(options_.timed, choices.count(), seconds), timer_));
  // All ranks use rank 0's best candidate.
  std::string best = BRAID_TRY(timer_.fromRankZero(candidates.front().schedule.str()));
  auto chosen = llvm::find_if(
      candidates, [&](const JudgedCandidate &each) { return each.schedule.str() == best; });
  if (chosen == candidates.end())
    return internalError("rank 0 chose what is no candidate here: {}", best);
  std::rotate(candidates.begin(), chosen, chosen + 1);
  choice.fusion = search_.fusion().name();
  if (choices.areSeveral())
    choice.stage = choices.stage(stage).tensors.front();
  choice.ranks = timer_.ranks();
  choice.reason = reasonFor(choice);
  choice.source = model_.source();
  return choice;
}

/// Chooses for the stages in sequence; they share the time. All ranks get rank 0's choice.
Result<ScheduleChoice> Chooser::chooseStages() {
  RunModes modes = options_;
  BRAID_TRY(openMessages(timer_, modes.transports, options_.warn, "no candidate sends messages"));
  BRAID_TRY(model_.find(modes.transports));
  StageChoices &choices = search_.choices();
  double left = options_.seconds;
  ScheduleChoice last;
  for (size_t stage = 0; stage < choices.count(); ++stage) {
    ScheduleChoice next =
        BRAID_TRY(chooseStage(stage, modes, left / static_cast<double>(choices.count() - stage)));
    left = std::max(0.0, left - next.seconds);
    choices.take(stage, next.candidates.front().candidate);
    if (stage > 0) {
      next.before = std::move(last.before);
      next.before.push_back(std::move(last));
    }
    last = std::move(next);
  }
  return last;
}

Result<ScheduleChoice> Chooser::choose() {
  BRAID_TRY(search_.findFusion());
  BRAID_TRY(meet());
  const KeptChoices kept(str(search_.fusion()), fmt::format("{} ranks, {}", timer_.ranks(),
                                                            encodeChoices(questionOf(options_))));
  if (options_.usesKnown && !options_.timed)
    if (std::optional<ScheduleChoice> known = BRAID_TRY(findKept(kept)))
      return std::move(*known);
  // Predictions for several stages take less than a second if nothing must be measured for them.
  if (!measures() && (!search_.choices().areSeveral() || !BRAID_TRY(model_.isKept())))
    return chooseDefault();
  ScheduleChoice choice = BRAID_TRY(chooseStages());
  if (!options_.timed && measures())
    model_.keep(kept.key(), KeptChoice{options_.seconds, choice.best()}.encode());
  return choice;
}

} // namespace

/// Adds messages if the backend's library is installed. If ranks share a GPU, the times of messages
/// are meaningless and few libraries support it, so messages are added only on request.
static void addMessages(ChooseOptions &options, const Backend &backend) {
  if (!backend.messages)
    return;
  const Result<bool> areShared = isOn(processEnvironment(), "BRAID_SHARE_GPUS", false);
  if (backend.transport == Transport::PeerMemory && areShared && !*areShared)
    options.transports.push_back(Transport::Messages);
  narrowTransports(options);
  if (!llvm::is_contained(options.transports, Transport::Messages))
    return;
  if (const Result<std::string> library = backend.messages(); library)
    options.cacheKey += ", messages by " + *library;
}

ChooseOptions chooseOptions(const Backend &backend, bool ranksAreProcesses, CompileOptions given) {
  ChooseOptions options;
  options.given = std::move(given);
  if (backend.hasGraphs)
    options.launchModes.push_back(LaunchMode::Graph);
  options.transports = {backend.transport};
  options.cacheFolder = measurementFolder(processEnvironment());
  options.cacheKey =
      fmt::format("braid {}, model {}, backend {}, ranks as {}, {} cores", BRAID_VERSION,
                  kModelVersion, backend.name, ranksAreProcesses ? "processes" : "threads",
                  std::thread::hardware_concurrency());
  addMessages(options, backend);
  return options;
}

Result<ScheduleChoice> choose(const std::string &name, const std::string &text,
                              const ChooseOptions &options, PlanTimer &timer) {
  return Chooser(name, text, options, timer).choose();
}

Result<ScheduleChoice> choose(Cluster &cluster, const std::string &name, const std::string &text,
                              const ChooseOptions &options, std::vector<TimedPlans> &trials,
                              const Barrier &barrier) {
  std::optional<ScheduleChoice> choice;
  trials.resize(static_cast<size_t>(cluster.hosted()));
  auto chooseOnRank = [&](int64_t rank) {
    const int64_t index = rank - cluster.firstHosted();
    Device &device = cluster.device(rank);
    // The caller's stream may be CUDA's default stream, which cannot be captured into a graph.
    void *stream = BRAID_TRY(device.callerStream(0));
    BRAID_TRY(device.setCallerStream(stream, {}));
    {
      PlanTimer timer(cluster, rank, trials[static_cast<size_t>(index)], barrier);
      ScheduleChoice mine = BRAID_TRY(choose(name, text, options, timer));
      if (index == 0)
        choice = std::move(mine);
    }
    BRAID_TRY(device.synchronize()); // waits for earlier work, too
    if (trials[static_cast<size_t>(index)].empty())
      return Status::ok();                              // chosen without trials
    BRAID_TRY(cluster.control(rank).allGather("idle")); // no rank uses the trials' memory now
    device.recycle();
    return Status::ok();
  };
  BRAID_TRY(cluster.onEveryRank(chooseOnRank));
  return std::move(*choice);
}

} // namespace braid
