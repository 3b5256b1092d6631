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

#include <thread>

namespace braid {
namespace {

/// Must be increased when measuring changes so much that stored measurements become invalid.
constexpr int kModelVersion = 6;

/// Returns the parts of the question besides the fusion and the time for trials.
std::vector<Choice> questionOf(const ChooseOptions &options) {
  std::string launchModes, transferModes;
  for (LaunchMode mode : options.launchModes)
    launchModes += name(mode).str() + " ";
  for (TransferMode each : options.transferModes)
    transferModes += str(each) + "; ";
  return {
      {"schedule", options.given.schedule.str()},
      {"reproducible", options.given.reproducible ? "yes" : "no"},
      {"time-best", options.timed ? std::to_string(*options.timed) : "open"},
      {"transfer modes", transferModes},
      {"launch modes", launchModes},
      {"transport", rowOf(Knob::DataPlane).str(static_cast<int64_t>(options.transports.front()))}};
}

/// Returns the limits for trials of `seconds` for a stage, or no time limit if the user set a
/// number of candidates. Several stages share the memory that a job has for prepared programs.
TimingLimits limitsFor(std::optional<int64_t> timed, size_t stages, double seconds) {
  if (timed)
    return {.most = static_cast<size_t>(*timed)};
  return {seconds, TimingLimits().most / stages};
}

/// Returns `options` without modes that contradict the given ones or the device.
ChooseOptions narrowed(ChooseOptions options, PlanTimer &timer) {
  const PeerMemory &peers = *timer.device().peerMemory();
  const Configuration &given = options.given.schedule.all;
  options.given.ranks = timer.ranks();
  if (options.transferModes.empty())
    options.transferModes = transferModesOf([&](TransferMode mode) { return peers.offers(mode); });
  narrowModes(given, options);
  // Memory is not varied: memory of all libraries is equally fast.
  for (TransferMode &mode : options.transferModes)
    mode.memory = transferModeOf(given).memory;
  if (options.transports.front() == Transport::Messages)
    options.cacheKey += ", messages"; // its model has no costs of peers' memory
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
        search_(
            name, text, options_.given,
            [](const Compiled &compiled) { return makePlans(compiled); },
            [&timer](const WorkProgress &) { timer.control().tick(); }) {}

  Result<ScheduleChoice> choose();

private:
  bool hasCopyEngines() const {
    return options_.transports.front() == Transport::PeerMemory &&
           timer_.device().peerMemory()->offers({CopyBy::Engine, SignalBy::Default});
  }
  bool measures() const { return options_.timed || options_.seconds > 0; }
  Status learn(llvm::ArrayRef<JudgedCandidate> candidates);
  Status meet();
  Result<std::optional<ScheduleChoice>> findKept(const KeptChoices &kept);
  ScheduleChoice chooseDefault();
  Result<StageTrials> chooseStage(size_t stage, double seconds);
  Result<ScheduleChoice> chooseStages();
  ScheduleChoice choiceOf(const Configurations &schedule, std::string reason,
                          std::string source) const;

  const std::string &text_;
  const ChooseOptions options_;
  PlanTimer &timer_;
  JobModel model_;
  CandidateSearch search_;
};

/// Measures what the job's model lacks to predict the candidates.
Status Chooser::learn(llvm::ArrayRef<JudgedCandidate> candidates) {
  std::vector<PlanMatmul> shapes;
  for (const JudgedCandidate &each : candidates)
    llvm::append_range(shapes, each.plans->front().matmuls);
  return model_.addGemms(shapes).status();
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

ScheduleChoice Chooser::choiceOf(const Configurations &schedule, std::string reason,
                                 std::string source) const {
  return {.fusion = search_.fusion().name(),
          .ranks = timer_.ranks(),
          .schedule = schedule,
          .reason = std::move(reason),
          .source = std::move(source)};
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
  ScheduleChoice found = choiceOf(choice->schedule,
                                  measures() ? "chosen earlier on this machine"
                                             : "measured here for the nearest sizes",
                                  "from " + model_.path());
  found.origin = "known";
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
  ScheduleChoice choice = choiceOf(
      choices.best(), "the default for these sizes, which were not measured", "not measured");
  choice.origin = "default";
  return choice;
}

/// Makes the best candidate the choice for the stage.
Result<StageTrials> Chooser::chooseStage(size_t stage, double seconds) {
  StageChoices &choices = search_.choices();
  StageTrials trials;
  if (choices.areSeveral())
    trials.stage = choices.stage(stage).tensors.front();
  std::vector<JudgedCandidate> &candidates = trials.candidates;
  candidates = BRAID_TRY(search_.find(stage, options_, hasCopyEngines() && timer_.ranks() > 2));
  BRAID_TRY(learn(candidates));
  BRAID_TRY(search_.sortByPrediction(candidates, model_.model()));
  if (candidates.size() > 1 && options_.timed.value_or(1) > 0)
    BRAID_TRY(runTrials(trials, limitsFor(options_.timed, choices.count(), seconds), timer_));
  // All ranks use rank 0's best candidate.
  std::string best = BRAID_TRY(timer_.fromRankZero(candidates.front().schedule.str()));
  auto chosen = llvm::find_if(
      candidates, [&](const JudgedCandidate &each) { return each.schedule.str() == best; });
  if (chosen == candidates.end())
    return internalError("rank 0 chose a schedule that is not a candidate on this rank: {}", best);
  std::rotate(candidates.begin(), chosen, chosen + 1);
  choices.take(stage, candidates.front().candidate);
  return trials;
}

/// Chooses for the stages in sequence; they share the time.
Result<ScheduleChoice> Chooser::chooseStages() {
  BRAID_TRY(model_.find());
  const size_t count = search_.choices().count();
  double left = options_.seconds;
  std::vector<StageTrials> stages;
  for (size_t stage = 0; stage < count; ++stage) {
    stages.push_back(BRAID_TRY(chooseStage(stage, left / static_cast<double>(count - stage))));
    left = std::max(0.0, left - stages.back().seconds);
  }
  ScheduleChoice choice =
      choiceOf(search_.choices().best(), stages.back().reason(), model_.source());
  choice.stages = std::move(stages);
  return choice;
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
    model_.keep(kept.key(), KeptChoice{options_.seconds, choice.schedule}.encode());
  return choice;
}

} // namespace

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
