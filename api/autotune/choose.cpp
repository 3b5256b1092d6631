//===- api/autotune/choose.cpp - chooses the fastest schedule for a fusion --------------------===//

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

/// Must be incremented when a change to the measurement code invalidates stored measurements.
constexpr int kModelVersion = 6;

/// Returns everything that the choice depends on, except the fusion and the time budget for trials.
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

/// Removes modes that the device lacks or that contradict the user's choices from `options`.
ChooseOptions narrowed(ChooseOptions options, PlanTimer &timer) {
  const PeerMemory &peers = *timer.device().peerMemory();
  const Configuration &given = options.given.schedule.all;
  options.given.ranks = timer.ranks();
  if (options.transferModes.empty())
    options.transferModes = transferModesOf([&](TransferMode mode) { return peers.offers(mode); });
  narrowModes(given, options);
  // The memory mode is not varied, because memory from any allocator is equally fast.
  for (TransferMode &mode : options.transferModes)
    mode.memory = transferModeOf(given).memory;
  if (options.transports.front() == Transport::Messages)
    options.cacheKey += ", messages"; // their model has no costs for peer-memory access
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
  Status meet();
  Result<std::optional<ScheduleChoice>> findKept(const std::string &key);
  ScheduleChoice chooseDefault();
  Result<StageTrials> chooseStage(size_t stage, double seconds);
  Result<ScheduleChoice> chooseStages();
  ScheduleChoice choiceOf(std::string origin, const Configurations &schedule, std::string reason,
                          std::string source) const;

  const std::string &text_;
  const ChooseOptions options_;
  PlanTimer &timer_;
  JobModel model_;
  CandidateSearch search_;
};

/// Returns BadInput if anything that the choice depends on differs between ranks.
Status Chooser::meet() {
  std::vector<Choice> question = {{"fusion", str(search_.fusion())}};
  llvm::append_range(question, questionOf(options_));
  question.push_back({"auto-seconds", fmt::format("{}", options_.seconds)});
  return compareChoices(BRAID_TRY(timer_.control().allGather(encodeChoices(question))));
}

ScheduleChoice Chooser::choiceOf(std::string origin, const Configurations &schedule,
                                 std::string reason, std::string source) const {
  return {.fusion = search_.fusion().name(),
          .ranks = timer_.ranks(),
          .schedule = schedule,
          .reason = std::move(reason),
          .source = std::move(source),
          .origin = std::move(origin)};
}

/// Returns rank 0's stored choice for this fusion, or, if nothing may be measured, for the nearest
/// sizes. The result is equal on all ranks, because all ranks lower the same text.
Result<std::optional<ScheduleChoice>> Chooser::findKept(const std::string &key) {
  std::optional<KeptChoice> kept;
  if (const MeasurementCache *cache = model_.cache())
    kept =
        measures() ? KeptChoice::decode(cache->find(key).value_or("")) : nearestChoice(*cache, key);
  const bool isEnough = kept && kept->seconds >= options_.seconds;
  kept = KeptChoice::decode(BRAID_TRY(timer_.fromRankZero(isEnough ? kept->encode() : "")));
  if (!kept || !search_.canLower(kept->schedule))
    return std::optional<ScheduleChoice>();
  const char *reason =
      measures() ? "chosen earlier on this machine" : "measured here for the nearest sizes";
  return std::optional(choiceOf("known", kept->schedule, reason, "from " + model_.path()));
}

/// Chooses each stage's first default schedule that can be lowered with the choices made so far.
ScheduleChoice Chooser::chooseDefault() {
  for (size_t stage = 0; hasCopyEngines() && stage < search_.count(); ++stage)
    for (const Configuration &each : defaultSchedules(search_.fusion(), search_.stage(stage))) {
      const Configurations schedule = search_.with(stage, search_.given(stage).over(each));
      if (!search_.canLower(schedule))
        continue;
      search_.take(schedule);
      break;
    }
  return choiceOf("default", search_.best(), "the default for these sizes, which were not measured",
                  "not measured");
}

/// Finds the best candidate for `stage`, and merges it into the best schedule so far.
Result<StageTrials> Chooser::chooseStage(size_t stage, double seconds) {
  StageTrials trials;
  if (search_.count() > 1)
    trials.stage = search_.stage(stage).tensors.front();
  std::vector<JudgedCandidate> &candidates = trials.candidates;
  candidates = BRAID_TRY(search_.find(stage, options_, hasCopyEngines() && timer_.ranks() > 2));
  std::vector<PlanMatmul> shapes;
  for (const JudgedCandidate &each : candidates)
    llvm::append_range(shapes, each.plans->front().matmuls);
  BRAID_TRY(model_.addGemms(shapes).status());
  BRAID_TRY(search_.sortByPrediction(candidates, model_.model()));
  // The stages share the job's memory for prepared programs, so divide the number of trials.
  TimingLimits limits{seconds, TimingLimits().most / search_.count()};
  if (options_.timed)
    limits = {.most = static_cast<size_t>(*options_.timed)};
  if (candidates.size() > 1 && limits.most > 0)
    BRAID_TRY(runTrials(trials, limits, timer_));
  // All ranks must choose the same candidate.
  const std::string best = BRAID_TRY(timer_.fromRankZero(candidates.front().schedule.str()));
  search_.take(BRAID_TRY(Configurations::parse(best)));
  return trials;
}

/// Chooses candidates for one stage after another. The stages share the time budget.
Result<ScheduleChoice> Chooser::chooseStages() {
  BRAID_TRY(model_.find());
  double left = options_.seconds;
  std::vector<StageTrials> stages;
  for (size_t stage = 0; stage < search_.count(); ++stage) {
    const auto others = static_cast<double>(search_.count() - stage);
    stages.push_back(BRAID_TRY(chooseStage(stage, left / others)));
    left = std::max(0.0, left - stages.back().seconds);
  }
  ScheduleChoice choice = choiceOf("", search_.best(), stages.back().reason(), model_.source());
  choice.stages = std::move(stages);
  return choice;
}

Result<ScheduleChoice> Chooser::choose() {
  BRAID_TRY(search_.findFusion());
  BRAID_TRY(meet());
  const std::string key =
      choiceKey(str(search_.fusion()),
                fmt::format("{} ranks, {}", timer_.ranks(), encodeChoices(questionOf(options_))));
  if (!options_.timed)
    if (std::optional<ScheduleChoice> known = BRAID_TRY(findKept(key)))
      return std::move(*known);
  // Given a stored model, predictions for several stages take less than a second.
  if (!measures() && (search_.count() == 1 || !BRAID_TRY(model_.isKept())))
    return chooseDefault();
  ScheduleChoice choice = BRAID_TRY(chooseStages());
  if (!options_.timed && measures())
    model_.keep(key, KeptChoice{options_.seconds, choice.schedule}.encode());
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
    // Replace the caller's stream: it may be CUDA's default stream, which cannot be captured.
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
    BRAID_TRY(cluster.control(rank).allGather("idle")); // no rank uses the trials' memory any more
    device.recycle();
    return Status::ok();
  };
  BRAID_TRY(cluster.onEveryRank(chooseOnRank));
  return std::move(*choice);
}

} // namespace braid
