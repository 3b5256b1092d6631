//===- api/autotune/candidate_search.cpp - the candidates of a stage, sorted by prediction ----===//

#include "api/autotune/candidate_search.h"

#include "api/autotune/contest.h"
#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"
#include "runtime/simulate/simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

namespace braid {
namespace {

/// Two candidates have equal signatures if their commands, peers, ranges and modes are equal.
uint64_t signatureOf(const Plan &plan, const Candidate &candidate) {
  const std::string commands = str(plan);
  return llvm::xxHash64(commands.substr(commands.find('\n')) + str(transferModeOf(candidate)) +
                        name(launchModeOf(candidate)).str());
}

} // namespace

Result<Compiled> CandidateSearch::compile(Source &source, const CompileOptions &options) const {
  Result<Compiled> compiled = braid::compile(source, options);
  if (compiled && !compiled->isLowered)
    return badInput(
        "schedule is for a fusion, but @{} in '{}' is a program, which is lowered already",
        compiled->program->name(), name_);
  return compiled ? compiled : withLocated(compiled.status(), source);
}

Status CandidateSearch::findFusion() {
  source_ = parseSource(name_, text_);
  CompileOptions options = given_;
  options.schedule.all = completed(given_.schedule.all);
  compiled_ = BRAID_TRY(compile(*source_, options));
  choices_ = StageChoices(stagesOf(*compiled_.fusion, source_->diags), given_.schedule);
  return Status::ok();
}

bool CandidateSearch::canLower(const Configurations &schedule) const {
  return bool(compile(*parseSource(name_, text_), applyTo(given_, schedule)));
}

Result<std::vector<Plan>> CandidateSearch::makePlans(const CompileOptions &options) const {
  std::unique_ptr<Source> source = parseSource(name_, text_);
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  Result<std::vector<Plan>> plans = machine_.makePlans(compiled);
  return plans ? std::move(plans) : withLocated(plans.status(), *source);
}

/// Returns null if the schedule cannot be lowered. Ignores launch mode and transfer mode.
std::shared_ptr<const std::vector<Plan>> CandidateSearch::plansOf(const Configurations &schedule) {
  Configurations key = schedule;
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() && row.knob != Knob::DataPlane)
      key.all.set(row.knob, std::nullopt);
  auto [entry, isNew] = plans_.try_emplace(key.str());
  if (!isNew)
    return entry->second;
  Result<std::vector<Plan>> plans = makePlans(applyTo(given_, schedule));
  if (plans)
    entry->second = std::make_shared<const std::vector<Plan>>(std::move(*plans));
  else if (refusal_.isOk())
    refusal_ = plans.status();
  return entry->second;
}

Result<double> CandidateSearch::predict(const JudgedCandidate &judged) const {
  const Simulation simulation =
      BRAID_TRY(simulate(*judged.plans, machine_.model,
                         {launchModeOf(judged.candidate), transferModeOf(judged.candidate)}));
  return simulation.burstUs;
}

/// Appends the candidates that can be lowered and are new.
void CandidateSearch::lower(llvm::ArrayRef<Candidate> candidates, size_t stage) {
  ProgressStep step(progress_, "lowering schedules", "candidates", candidates.size());
  for (const Candidate &candidate : candidates) {
    const Configurations schedule = choices_.with(stage, candidate);
    const auto plans = plansOf(schedule);
    if (plans && seen_.insert(signatureOf(plans->front(), candidate)).second)
      found_.push_back(
          {.candidate = candidate,
           .schedule = schedule,
           .plans = plans,
           .commands = plans->front().commands.size(),
           .family = familyOf(candidate),
           .worstCase = worstCase(candidate, fusion().ranks(), machine_.hasCopyEngines)});
    step.advance();
  }
}

/// Adds the candidates, predicts them, and sorts all by prediction.
Status CandidateSearch::add(llvm::ArrayRef<Candidate> candidates, size_t stage) {
  lower(candidates, stage);
  const bool isNewModel = machine_.learn && BRAID_TRY(machine_.learn(found_));
  ProgressStep step(progress_, "predicting schedules", "candidates", found_.size());
  std::vector<JudgedCandidate> predicted;
  for (JudgedCandidate &each : found_) {
    Result<double> us = isNewModel || each.predictedUs == 0 ? predict(each) : each.predictedUs;
    step.advance();
    if (us) {
      each.predictedUs = *us;
      predicted.push_back(std::move(each));
    } else if (refusal_.isOk()) {
      refusal_ = us.status().annotated(each.schedule.str());
    }
  }
  found_ = std::move(predicted);
  sortByPrediction(found_);
  return Status::ok();
}

/// Adds the broad candidates first, then variants of the best of them.
Result<std::vector<JudgedCandidate>> CandidateSearch::search(size_t stage, const RunModes &modes) {
  const CandidateSpace space{choices_.given(stage), modes, choices_.stage(stage)};
  found_.clear();
  seen_.clear();
  std::vector<Candidate> broad = broadCandidates(space);
  if (choices_.isBegun())
    broad.insert(broad.begin(), choices_.best(stage));
  BRAID_TRY(add(broad, stage));
  if (found_.empty())
    return refusal_.isOk() ? unsupported("expected a candidate that can be predicted, got none")
                           : refusal_;
  std::vector<Candidate> bestFirst, variants;
  for (const JudgedCandidate &each : found_)
    bestFirst.push_back(each.candidate);
  for (const Candidate &each : worthVariants(bestFirst))
    llvm::append_range(variants, variantsOf(each, space));
  BRAID_TRY(add(variants, stage));
  return std::move(found_);
}

} // namespace braid
