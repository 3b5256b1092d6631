//===- api/autotune/choose.cpp - chooses the fastest schedule for a fusion --------------------===//

#include "api/autotune/choose.h"

#include "api/autotune/candidate_search.h"
#include "api/autotune/kept_choices.h"
#include "api/compile/plans.h"
#include "ir/failure.h"
#include "lowering/stages/default_schedules.h"
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

/// Returns `options` without modes that the device lacks or that contradict the user's choices.
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
    options.cacheKey += ", messages"; // the model then lacks costs of peer-memory access
  // Reproducible GEMMs use different algorithms, so their times differ.
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
  void markDefault(size_t stage, llvm::MutableArrayRef<JudgedCandidate> candidates) const;
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

/// Returns rank 0's stored choice for this fusion or, if measuring is disabled, the one for the
/// nearest sizes. The result is equal on all ranks, because all ranks lower the same text.
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
      measures() ? "chosen earlier on this machine" : "measured on this machine for similar sizes";
  return std::optional(choiceOf("known", kept->schedule, reason, "from " + model_.path()));
}

/// Chooses for each stage the first default schedule that can be lowered together with the choices
/// made so far.
ScheduleChoice Chooser::chooseDefault() {
  for (size_t stage = 0; hasCopyEngines() && stage < search_.count(); ++stage)
    for (const Configuration &each : defaultSchedules(search_.fusion(), search_.stage(stage))) {
      const Configurations schedule = search_.with(stage, search_.given(stage).over(each));
      if (!search_.canLower(schedule))
        continue;
      search_.take(schedule);
      break;
    }
  return choiceOf("default", search_.best(),
                  "the default schedule, because these sizes have not been measured",
                  "not measured");
}

/// Marks the first default schedule that is among the candidates.
void Chooser::markDefault(size_t stage, llvm::MutableArrayRef<JudgedCandidate> candidates) const {
  for (const Configuration &each : defaultSchedules(search_.fusion(), search_.stage(stage)))
    for (JudgedCandidate &judged : candidates)
      if (areAlike(judged.candidate, search_.given(stage).over(each))) {
        judged.isDefault = true;
        return;
      }
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
  if (hasCopyEngines())
    markDefault(stage, candidates);
  // Divide the trials among the stages, which share the job's memory for prepared programs.
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
  // Predicting the times of several stages with a stored model takes less than a second.
  if (!measures() && (search_.count() == 1 || !BRAID_TRY(model_.isKept())))
    return chooseDefault();
  ScheduleChoice choice = BRAID_TRY(chooseStages());
  if (!options_.timed && measures())
    model_.keep(key, KeptChoice{options_.seconds, choice.schedule}.encode());
  return choice;
}

//===- Explaining the choice ------------------------------------------------------------------===//

std::string lineOf(const JudgedCandidate &judged) {
  std::string measured = "-", error; // `error`: the prediction error
  if (judged.burstUs) {
    measured = fmt::format("{:.1f}", *judged.burstUs);
    error = fmt::format("{:+.0f} %", 100 * (judged.predictedUs / *judged.burstUs - 1));
  }
  return fmt::format("{:>12.1f}{:>12}{:>9}  {}", judged.predictedUs, measured, error,
                     judged.schedule.str());
}

/// Describes to users which candidates were timed, and how.
std::string howTimed(const StageTrials &trials) {
  std::string text = fmt::format("  timed: {} of {} in {:.2f} s, starting with one of each "
                                 "combination of schedule, protocol and transfer mode",
                                 trials.timed(), trials.candidates.size(), trials.seconds);
  if (trials.finalists > 0)
    text += fmt::format("; the fastest {} were then timed in alternation {} more times",
                        trials.finalists, trials.rounds);
  return text + "\n";
}

/// Returns the table for one stage.
std::string tableOf(const ScheduleChoice &choice, const StageTrials &trials, size_t next) {
  const llvm::ArrayRef<JudgedCandidate> all = trials.candidates;
  const size_t shown = std::min(all.size() - trials.timed(), next) + trials.timed();
  const std::string stage = trials.stage.empty() ? "" : ", stage of %" + trials.stage + ",";
  std::string text = fmt::format("braid: auto: {} candidates for @{}{} on {} ranks; times are in "
                                 "microseconds per run, with runs issued back to back\n"
                                 "   predicted    measured    error  candidate\n",
                                 all.size(), choice.fusion, stage, choice.ranks);
  for (const JudgedCandidate &each : all.take_front(shown))
    text += lineOf(each) + (&each == &all.front() ? "  <-\n" : "\n");
  if (shown < all.size())
    text += fmt::format("  and {} more\n", all.size() - shown);
  if (trials.timed() > 0)
    text += howTimed(trials);
  return text + fmt::format("  chosen: {}: {}\n", trials.best().schedule.str(), trials.reason());
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

std::string explain(const ScheduleChoice &choice, size_t next) {
  if (choice.stages.empty())
    return fmt::format("braid: auto: {} for @{} on {} ranks: {}, {}\n", choice.origin,
                       choice.fusion, choice.ranks, choice.schedule.str(), choice.source);
  std::string text;
  for (const StageTrials &each : choice.stages)
    text += tableOf(choice, each, next);
  return text + fmt::format("  model: {}\n", choice.source);
}

} // namespace braid
