//===- api/autotune/candidate_search.cpp - the candidates for a stage, sorted by prediction ---===//

#include "api/autotune/candidate_search.h"

#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"
#include "runtime/simulate/simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <set>

namespace braid {
namespace {

/// Returns only the run knobs of `config` if `areOfRun`, otherwise only the stage knobs.
Configuration only(bool areOfRun, Configuration config) {
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() != areOfRun)
      config.set(row.knob, std::nullopt);
  return config;
}

Configuration givenFor(const FusionStage &stage, const Configurations &given) {
  auto named = llvm::find_if(given.stages, [&](const Configurations::OfStage &each) {
    return llvm::is_contained(stage.tensors, each.tensor);
  });
  return named == given.stages.end() ? given.all : named->config.over(given.all);
}

/// Returns a hash of a Plan's commands, peers and ranges, but not of its name.
uint64_t signatureOf(const Plan &plan) {
  const std::string commands = str(plan);
  return llvm::xxHash64(llvm::StringRef(commands).substr(commands.find('\n')));
}

} // namespace

Result<Compiled> CandidateSearch::compile(Source &source, const CompileOptions &options) const {
  const Compiled compiled = BRAID_TRY(braid::compile(source, options));
  if (!compiled.isLowered)
    return badInput("schedule applies to a fusion, but @{} in '{}' is a program, which has already "
                    "been lowered",
                    compiled.program->name(), name_);
  return compiled;
}

Status CandidateSearch::findFusion() {
  source_ = parseSource(name_, text_);
  const Configurations &schedule = options_.schedule;
  CompileOptions options = options_;
  options.schedule.all = completed(schedule.all);
  compiled_ = BRAID_TRY(compile(*source_, options));
  stages_ = stagesOf(*compiled_.fusion, source_->diags);
  if (stages_.empty())
    stages_.emplace_back();
  for (const FusionStage &stage : stages_) {
    const Configuration &given = given_.emplace_back(givenFor(stage, schedule));
    const Configuration config = given.over(fieldsFor(given));
    if (count() == 1)
      best_ = {config, schedule.stages};
    else
      best_.stages.push_back({stage.tensors.front(), only(false, config)});
  }
  return Status::ok();
}

Configurations CandidateSearch::with(size_t stage, const Candidate &candidate) const {
  if (count() == 1)
    return {candidate, best_.stages};
  Configurations whole{only(true, candidate), best_.stages};
  whole.stages[stage].config = only(false, candidate);
  return whole;
}

bool CandidateSearch::canLower(const Configurations &schedule) const {
  return bool(compile(*parseSource(name_, text_), applyTo(options_, schedule)));
}

Result<std::vector<Plan>> CandidateSearch::plansOf(const Configurations &schedule) const {
  const std::unique_ptr<Source> source = parseSource(name_, text_);
  return makePlans_(BRAID_TRY(compile(*source, applyTo(options_, schedule))));
}

Result<std::vector<JudgedCandidate>> CandidateSearch::find(size_t stage, const RunModes &modes,
                                                           bool isSteady) {
  const std::vector<Candidate> all = candidatesFor(given(stage), stages_[stage]);
  std::set<uint64_t> seen;
  std::vector<JudgedCandidate> found;
  Status refusal;
  ProgressStep step(progress_, "lowering schedules", "candidates", all.size());
  for (const Candidate &candidate : all) {
    Result<std::vector<Plan>> plans = plansOf(with(stage, candidate));
    step.advance();
    if (!plans)
      refusal = refusal.isOk() ? plans.status() : refusal;
    if (!plans || !seen.insert(signatureOf(plans->front())).second)
      continue;
    const auto shared = std::make_shared<const std::vector<Plan>>(std::move(*plans));
    for (const Candidate &each : inAllModes(candidate, modes))
      found.push_back({each, with(stage, each), shared});
  }
  const auto drifts = [](const JudgedCandidate &each) { return mayDrift(each.candidate); };
  if (isSteady && !llvm::all_of(found, drifts))
    llvm::erase_if(found, drifts);
  if (found.empty())
    return refusal;
  return found;
}

Status CandidateSearch::sortByPrediction(std::vector<JudgedCandidate> &candidates,
                                         const CostModel &model) const {
  std::vector<JudgedCandidate> predicted;
  Status refusal;
  ProgressStep step(progress_, "predicting schedules", "candidates", candidates.size());
  for (JudgedCandidate &each : candidates) {
    const Result<Simulation> simulation = simulate(
        *each.plans, model, {launchModeOf(each.candidate), transferModeOf(each.candidate)});
    step.advance();
    if (!simulation) {
      refusal = refusal.isOk() ? simulation.status().annotated(each.schedule.str()) : refusal;
      continue;
    }
    each.predictedUs = simulation->burstUs;
    predicted.push_back(std::move(each));
  }
  candidates = std::move(predicted);
  llvm::stable_sort(candidates, [](const JudgedCandidate &a, const JudgedCandidate &b) {
    return a.predictedUs < b.predictedUs;
  });
  return candidates.empty() ? refusal : Status::ok();
}

} // namespace braid
