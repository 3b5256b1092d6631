//===- api/autotune/choose.cpp - how to run a fusion fastest ----------------------------------===//

#include "api/autotune/choose.h"

#include "api/autotune/candidates.h"
#include "api/autotune/contest.h"
#include "api/autotune/lowered_candidates.h"
#include "api/timing/seconds_since.h"
#include "ir/failure.h"
#include "runtime/execute/handshake.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/simulate/simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <thread>

namespace braid {
namespace {

/// To be raised when measuring changes so much that what was measured before should not count.
constexpr int kModelVersion = 5;

/// The question, which must be the same on all ranks.
std::vector<Choice> questionOf(const std::string &text, const ChooseOptions &options) {
  std::string launchModes, transferModes, transports, parameters;
  for (LaunchMode mode : options.launchModes)
    launchModes += name(mode).str() + " ";
  for (TransferMode each : options.transferModes)
    transferModes += str(each) + "; ";
  for (Transport each : options.transports)
    transports += rowOf(Knob::DataPlane).str(static_cast<int64_t>(each)) + "; ";
  for (const auto &[parameter, value] : options.given.parameters)
    parameters += fmt::format("{}={} ", parameter, value);
  std::vector<Choice> question = {{"fusion", text}, {"parameters", parameters}};
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

/// `all` in that order, which names each of them once.
std::vector<LoweredCandidate> inOrder(std::vector<LoweredCandidate> all,
                                      llvm::ArrayRef<size_t> order) {
  std::vector<LoweredCandidate> ordered;
  for (size_t candidate : order)
    ordered.push_back(std::move(all[candidate]));
  return ordered;
}

constexpr size_t kMostTurns = 2; ///< turns of each stage

/// The limits of a turn of `seconds`, or without a time limit if the user asked for a number of
/// candidates. Several stages share the memory that a job has for prepared programs.
TimingLimits limitsFor(std::optional<int64_t> timed, size_t stages, double seconds) {
  TimingLimits limits = timed ? TimingLimits() : TimingLimits::within(seconds);
  limits.most = std::max(limits.least, limits.most / stages);
  if (!timed)
    return limits;
  limits.least = limits.most = static_cast<size_t>(std::max<int64_t>(*timed, 0));
  limits.window = std::numeric_limits<double>::infinity();
  return limits;
}

/// The result of earlier trials, and the time limit that they had.
struct KnownChoice {
  double seconds;
  Configurations schedule;

  std::string encode() const { return fmt::format("{} {}", seconds, schedule.str()); }
  static std::optional<KnownChoice> decode(llvm::StringRef text) {
    auto [seconds, schedule] = text.split(' ');
    double number = 0;
    Result<Configurations> parsed = Configurations::parse(schedule);
    if (seconds.getAsDouble(number) || schedule.empty() || !parsed)
      return std::nullopt;
    return KnownChoice{number, std::move(*parsed)};
  }
};

/// Messages have no protocol, nobody who copies or signals, and no order of additions.
bool mayBeMessages(const CompileOptions &given) {
  auto isOpen = [](const Configuration &config) { return !knobOfPeerMemoryIn(config); };
  return !given.reproducible && isOpen(given.schedule.all) &&
         llvm::all_of(given.schedule.stages,
                      [&](const Configurations::OfStage &each) { return isOpen(each.config); });
}

/// Removes transports that contradict the given one.
void narrowTransports(ChooseOptions &options) {
  const Configuration &given = options.given.schedule.all;
  if (given.get(Knob::DataPlane))
    options.transports = {transportOf(given, Transport::PeerMemory)};
  else if (options.transports.size() > 1 && !mayBeMessages(options.given))
    options.transports.resize(1);
}

ChooseOptions withTransferModes(ChooseOptions options, const PeerMemory &peers) {
  narrowTransports(options);
  if (options.transports == std::vector{Transport::Messages})
    options.transferModes = {TransferMode()};
  if (options.transferModes.empty())
    options.transferModes = transferModesOf([&](TransferMode mode) { return peers.offers(mode); });
  // Memory is not chosen: it is as fast from one library as from another.
  for (TransferMode &mode : options.transferModes)
    mode.memory = transferModeOf(options.given.schedule.all).memory;
  // Other algorithms multiply then, and take another time.
  if (options.given.reproducible)
    options.cacheKey += ", reproducible";
  return options;
}

class Chooser {
public:
  Chooser(const std::string &name, const std::string &text, const ChooseOptions &options,
          PlanTimer &timer)
      : text_(text), options_(withTransferModes(options, *timer.device().peerMemory())),
        timer_(timer), lowering_(name, text, options.given, timer.ranks()),
        model_(timer, options_) {}

  Result<ScheduleChoice> choose();

private:
  Status meet();
  Status tryMessages();
  std::string key() const;
  Result<std::optional<ScheduleChoice>> findKnown();
  double worstCaseOf(const Candidate &candidate) const;
  std::vector<PredictedCandidate> predictedCandidates() const;
  CandidateSpace space() const;
  Status findCandidates();
  Status predict();
  Result<TimedPlan *> ready(size_t candidate);
  void keepFastest();
  double warmUpTimeOf(size_t candidate) const;
  Result<double> tryOut(size_t candidate);
  Result<double> takeTurn(size_t candidate);
  TimingActions timingActions();
  double secondsFor(size_t turn) const;
  Status timeBest(double seconds);
  Result<ScheduleChoice> decide();
  Result<ScheduleChoice> chooseStage(double seconds);
  Result<ScheduleChoice> chooseInTurns();

  const std::string &text_;
  ChooseOptions options_;
  PlanTimer &timer_;
  CandidateLowering lowering_;
  JobModel model_;
  StageChoices choices_{{}, {}};
  double trialSeconds_ = 0; ///< spent in all turns, by rank 0's clock
  // State of the stage that is being chosen for.
  size_t stage_ = 0;
  std::vector<LoweredCandidate> candidates_; ///< the best first, once they are predicted
  std::map<size_t, TimedPlan> ready_;        ///< candidates that may be timed again
  std::map<size_t, double> trials_;          ///< the counted time of each first trial
  double turnSeconds_ = 0;                   ///< that they took
  CandidateTimes timed_;                     ///< the outcome of the contest
};

/// All ranks have to have been asked the same.
Status Chooser::meet() {
  std::vector<Choice> question = questionOf(text_, options_);
  question.push_back({"entry", options_.given.entry.value_or("none")});
  question.push_back({"auto-seconds", fmt::format("{}", options_.seconds)});
  Result<std::vector<std::string>> all = timer_.control().allGather(encodeChoices(question));
  return all ? compareChoices(*all) : all.status();
}

/// Messages are one way of several only where every rank can send them. Collective.
Status Chooser::tryMessages() {
  return openMessages(timer_, options_.transports, options_.warn, "no candidate sends messages");
}

/// The key under which the choice is kept.
std::string Chooser::key() const {
  const std::string question = encodeChoices(questionOf(lowering_.fusionText(), options_));
  return fmt::format("choice for @{} on {} ranks, {:016x}", lowering_.fusion(), timer_.ranks(),
                     llvm::xxHash64(question));
}

/// The same on all ranks, for each of them judges the same text alike.
Result<std::optional<ScheduleChoice>> Chooser::findKnown() {
  std::string text = BRAID_TRY(model_.kept(key()));
  const std::optional<KnownChoice> known = KnownChoice::decode(text);
  const bool isEnough = known && known->seconds >= options_.seconds;
  if (!isEnough || !lowering_.accepts(known->schedule))
    return std::optional<ScheduleChoice>();
  ScheduleChoice choice;
  choice.candidates.push_back({{}, known->schedule});
  choice.fusion = lowering_.fusion();
  choice.ranks = timer_.ranks();
  choice.reason = "as chosen before on this machine";
  choice.source = "from " + model_.path();
  choice.isKnown = true;
  return std::optional(std::move(choice));
}

double Chooser::worstCaseOf(const Candidate &candidate) const {
  const bool hasCopyEngines =
      timer_.device().peerMemory()->offers({CopyBy::Engine, SignalBy::Default});
  return worstCase(candidate, timer_.ranks(), hasCopyEngines);
}

std::vector<PredictedCandidate> Chooser::predictedCandidates() const {
  std::vector<PredictedCandidate> all;
  for (const LoweredCandidate &each : candidates_)
    all.push_back({each.predictedUs, each.plans->front().commands.size(), familyOf(each.candidate),
                   each.worstCase});
  return all;
}

CandidateSpace Chooser::space() const {
  return {choices_.given(stage_), options_.launchModes, options_.transferModes,
          choices_.stage(stage_), options_.transports};
}

/// First what changes most, then the variants of the best of those. What is the best so far is one
/// of them, so that no turn makes it worse.
Status Chooser::findCandidates() {
  candidates_.clear();
  lowering_.begin();
  if (choices_.isBegun())
    lowering_.lower(choices_.best(stage_), choices_, stage_, candidates_);
  lowering_.lower(broadCandidates(space()), choices_, stage_, candidates_);
  if (candidates_.empty())
    return lowering_.refusal();
  BRAID_TRY(predict());
  std::vector<Candidate> bestFirst, variants;
  for (const LoweredCandidate &each : candidates_)
    bestFirst.push_back(each.candidate);
  for (const Candidate &each : worthVariants(bestFirst))
    llvm::append_range(variants, variantsOf(each, space()));
  lowering_.lower(variants, choices_, stage_, candidates_);
  return predict();
}

/// Brings the best predicted to the front. By the same model nothing is predicted twice.
Status Chooser::predict() {
  std::vector<PlanMatmul> shapes;
  for (const LoweredCandidate &each : candidates_)
    llvm::append_range(shapes, each.plans->front().matmuls);
  bool isNewModel = BRAID_TRY(model_.addGemms(shapes));
  std::vector<const Plan *> sending;
  for (const LoweredCandidate &each : candidates_)
    if (each.plans->front().transport == Transport::Messages)
      sending.push_back(&each.plans->front());
  isNewModel |= BRAID_TRY(model_.addMessages(sending));
  for (LoweredCandidate &each : candidates_) {
    if (each.predictedUs > 0 && !isNewModel)
      continue;
    each.worstCase = worstCaseOf(each.candidate);
    Result<Simulation> simulation = simulate(*each.plans, model_.model(),
                                             {.launchMode = launchModeOf(each.candidate),
                                              .transferMode = transferModeOf(each.candidate)});
    if (!simulation)
      return simulation.status().annotated(each.schedule.str());
    each.predictedUs = simulation->burstUs;
    timer_.control().tick();
  }
  const std::vector<size_t> order = orderByPrediction(predictedCandidates());
  candidates_ = inOrder(std::move(candidates_), order);
  return Status::ok();
}

/// Ready to run. Collective.
Result<TimedPlan *> Chooser::ready(size_t candidate) {
  if (auto found = ready_.find(candidate); found != ready_.end())
    return &found->second;
  const LoweredCandidate &lowered = candidates_[candidate];
  TimedPlan made = BRAID_TRY(timer_.makeReady(*lowered.plans, launchModeOf(lowered.candidate),
                                              transferModeOf(lowered.candidate)));
  return &ready_.emplace(candidate, std::move(made)).first->second;
}

double Chooser::warmUpTimeOf(size_t candidate) const {
  return timer_.warmUpTimeUs(candidates_[candidate].plans->front().matmuls);
}

/// Each may hold gigabytes, and only the fastest are timed again.
void Chooser::keepFastest() {
  constexpr size_t kMost = 10; // some more than play
  auto isFaster = [this](const auto &a, const auto &b) {
    return trials_.at(a.first) < trials_.at(b.first);
  };
  if (ready_.size() > kMost)
    ready_.erase(std::max_element(ready_.begin(), ready_.end(), isFaster));
}

/// A few runs alone, which show how wrong the prediction was, then short bursts. A fifth of what a
/// run takes longer alone is left in a burst of five.
Result<double> Chooser::tryOut(size_t candidate) {
  // All but the first follow another one that takes as much power.
  const double share = trials_.empty() ? 1 : 0.3;
  TimedPlan *plan = BRAID_TRY(ready(candidate));
  const double warmUpUs = share * warmUpTimeOf(candidate);
  const RunTime single = BRAID_TRY(
      timer_.time(*plan, {.least = 1, .most = 3, .budgetUs = 10000, .warmUpUs = warmUpUs}));
  const double us = BRAID_TRY(timer_.timeBursts(*plan, single.us, {.runs = 5, .bursts = 3}));
  candidates_[candidate].singleUs = single.us;
  trials_[candidate] = us * candidates_[candidate].worstCase;
  keepFastest();
  return us;
}

/// One long burst, in which hardly anything is left of what a run takes longer alone. In short
/// turns, all would have the clocks that one that takes much power leaves to them.
Result<double> Chooser::takeTurn(size_t candidate) {
  TimedPlan *plan = BRAID_TRY(ready(candidate));
  const double us = BRAID_TRY(timer_.warmUpRuns(*plan, {.warmUp = 1}));
  const double warmUpUs = warmUpTimeOf(candidate);
  return timer_.timeBursts(
      *plan, us,
      {.runs = 40, .bursts = 1, .budgetUs = std::max(8e3, 0.4 * warmUpUs), .warmUpUs = warmUpUs});
}

/// Times are maxima over ranks, and rank 0's clock is everyone's.
TimingActions Chooser::timingActions() {
  using Clock = std::chrono::steady_clock;
  auto named = [this](size_t candidate, Result<double> us) {
    return us ? us : us.status().annotated(candidates_[candidate].schedule.str());
  };
  TimingActions actions;
  actions.look = [=, this](size_t candidate) { return named(candidate, tryOut(candidate)); };
  actions.again = [=, this](size_t candidate) { return named(candidate, takeTurn(candidate)); };
  actions.seconds = [this, start = Clock::now()] {
    return timer_.numberFromRankZero(secondsSince(start));
  };
  return actions;
}

/// So many of what is left of the time. A later turn, which may not be needed, counts for half of
/// the first ones.
double Chooser::secondsFor(size_t turn) const {
  const size_t first = choices_.count(), all = first == 1 ? 1 : kMostTurns * first;
  const double turnsLeft =
      turn < first ? double(first - turn) + 0.5 * double(all - first) : double(all - turn);
  return std::max(0.0, options_.seconds - trialSeconds_) / turnsLeft;
}

Status Chooser::timeBest(double seconds) {
  timed_ = {};
  turnSeconds_ = 0;
  if (candidates_.size() < 2 || options_.timed.value_or(1) <= 0)
    return Status::ok();
  const TimingActions actions = timingActions();
  Result<CandidateTimes> timed = timeCandidates(
      predictedCandidates(), limitsFor(options_.timed, choices_.count(), seconds), actions);
  ready_.clear();
  trials_.clear();
  if (!timed)
    return timed.status();
  turnSeconds_ = BRAID_TRY(actions.seconds());
  trialSeconds_ += turnSeconds_;
  std::vector<size_t> order;
  for (const CandidateTime &each : timed->times) {
    candidates_[each.candidate].burstUs = each.us;
    order.push_back(each.candidate);
  }
  for (size_t candidate = 0; candidate < candidates_.size(); ++candidate)
    if (!candidates_[candidate].burstUs)
      order.push_back(candidate);
  candidates_ = inOrder(std::move(candidates_), order);
  timed_ = std::move(*timed);
  return Status::ok();
}

/// Rank 0's best becomes everyone's.
Result<ScheduleChoice> Chooser::decide() {
  std::string best = BRAID_TRY(timer_.fromRankZero(candidates_.front().schedule.str()));
  auto chosen = llvm::find_if(
      candidates_, [&](const LoweredCandidate &each) { return each.schedule.str() == best; });
  if (chosen == candidates_.end())
    return internalError("rank 0 chose what is no candidate here: {}", best);
  std::rotate(candidates_.begin(), chosen, chosen + 1);
  ScheduleChoice choice;
  choice.candidates.assign(candidates_.begin(), candidates_.end());
  choice.fusion = lowering_.fusion();
  if (choices_.areSeveral())
    choice.stage = choices_.stage(stage_).tensors.front();
  choice.ranks = timer_.ranks();
  choice.finalists = timed_.finalists;
  choice.rounds = timed_.rounds;
  choice.seconds = turnSeconds_;
  choice.reason = reasonFor(choice);
  choice.source = model_.source();
  return choice;
}

Result<ScheduleChoice> Chooser::choose() {
  BRAID_TRY(meet());
  BRAID_TRY(lowering_.findFusion());
  if (options_.usesKnown && !options_.timed)
    if (std::optional<ScheduleChoice> known = BRAID_TRY(findKnown()))
      return std::move(*known);
  BRAID_TRY(tryMessages());
  BRAID_TRY(model_.find());
  choices_ = StageChoices(lowering_.stages(), options_.given.schedule);
  ScheduleChoice choice = BRAID_TRY(chooseInTurns());
  if (!options_.timed)
    model_.keep(key(), KnownChoice{options_.seconds, choice.best()}.encode());
  return choice;
}

Result<ScheduleChoice> Chooser::chooseStage(double seconds) {
  BRAID_TRY(findCandidates());
  BRAID_TRY(timeBest(seconds));
  return decide();
}

/// Each stage has one turn, and another one if a later one has changed anything. All ranks take the
/// same turns: each has rank 0's choice.
Result<ScheduleChoice> Chooser::chooseInTurns() {
  std::vector<ScheduleChoice> before;
  for (size_t turn = 0, unchanged = 0;; ++turn) {
    stage_ = turn % choices_.count();
    Result<ScheduleChoice> choice = chooseStage(secondsFor(turn));
    if (!choice)
      return choice;
    unchanged = choices_.take(stage_, choice->candidates.front().candidate) ? 0 : unchanged + 1;
    const bool hadAllTurns = turn + 1 >= choices_.count();
    if (hadAllTurns &&
        (unchanged + 1 >= choices_.count() || turn + 1 == kMostTurns * choices_.count())) {
      choice->before = std::move(before);
      return choice;
    }
    before.push_back(std::move(*choice));
  }
}

} // namespace

/// Adds messages by the library that is installed. If ranks share a GPU, the times of messages mean
/// nothing and few libraries support it, so messages are only used there if the user asks.
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
  narrowModes(options.given.schedule.all, options.launchModes, options.transferModes);
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
    // The caller's may be CUDA's default stream, of which no graph can be recorded.
    void *stream = BRAID_TRY(device.callerStream(0));
    BRAID_TRY(device.setCallerStream(stream, {}));
    {
      PlanTimer timer(cluster, rank, trials[static_cast<size_t>(index)], barrier);
      ScheduleChoice mine = BRAID_TRY(choose(name, text, options, timer));
      if (index == 0)
        choice = std::move(mine);
    }
    BRAID_TRY(device.synchronize());
    BRAID_TRY(cluster.control(rank).allGather("idle")); // so no rank uses what the trials had
    device.recycle();
    return Status::ok();
  };
  BRAID_TRY(cluster.onEveryRank(chooseOnRank));
  return std::move(*choice);
}

Result<TimedRow> chooseRow(TimedRow row, ChooseOptions options, PlanTimer &timer,
                           ScheduleChoice *choice) {
  options.given = row.options;
  narrowModes(row.options.schedule.all, options.launchModes, options.transferModes);
  ScheduleChoice found = BRAID_TRY(choose(row.name, row.text, options, timer));
  row.options = applyTo(row.options, found.best());
  row.isGraphed = launchModeOf(found.best().all) == LaunchMode::Graph;
  row.transferMode = transferModeOf(found.best().all);
  row.isAuto = false;
  if (choice)
    *choice = std::move(found);
  return row;
}

} // namespace braid
