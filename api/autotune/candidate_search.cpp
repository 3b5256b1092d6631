//===- api/autotune/candidate_search.cpp - the candidates of a stage, sorted by prediction ----===//

#include "api/autotune/candidate_search.h"

#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"
#include "runtime/simulate/simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <set>

namespace braid {
namespace {

/// Two candidates have equal signatures if their commands, peers, ranges and modes are equal.
uint64_t signatureOf(const Plan &plan, const Candidate &candidate) {
  const std::string commands = str(plan);
  return llvm::xxHash64(commands.substr(commands.find('\n')) + str(transferModeOf(candidate)) +
                        name(launchModeOf(candidate)).str());
}

/// Returns a text that is equal for schedules with equal lowerings. Launch mode and transfer mode
/// do not matter.
std::string lowered(Configurations schedule) {
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() && row.knob != Knob::DataPlane)
      schedule.all.set(row.knob, std::nullopt);
  return schedule.str();
}

} // namespace

Result<Compiled> CandidateSearch::compile(Source &source, const CompileOptions &options) const {
  Result<Compiled> compiled = braid::compile(source, options);
  if (compiled && !compiled->isLowered)
    return badInput(
        "schedule applies to a fusion, but @{} in '{}' is a program, which is already lowered",
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

CandidateSearch::Plans CandidateSearch::plansOf(const Configurations &schedule) const {
  std::unique_ptr<Source> source = parseSource(name_, text_);
  const Compiled compiled = BRAID_TRY(compile(*source, applyTo(given_, schedule)));
  Result<std::vector<Plan>> plans = makePlans_(compiled);
  if (!plans)
    return withLocated(plans.status(), *source);
  return std::make_shared<const std::vector<Plan>>(std::move(*plans));
}

Result<std::vector<JudgedCandidate>> CandidateSearch::find(size_t stage, const RunModes &modes,
                                                           bool mayDrift) {
  const std::vector<Candidate> all =
      candidatesFor({choices_.given(stage), modes, choices_.stage(stage), mayDrift});
  std::map<std::string, Plans> plans;
  std::set<uint64_t> seen;
  std::vector<JudgedCandidate> found;
  Status refusal;
  ProgressStep step(progress_, "lowering schedules", "candidates", all.size());
  for (const Candidate &candidate : all) {
    const Configurations schedule = choices_.with(stage, candidate);
    auto entry = plans.find(lowered(schedule));
    if (entry == plans.end())
      entry = plans.emplace(lowered(schedule), plansOf(schedule)).first;
    if (const Plans &made = entry->second; !made)
      refusal = refusal.isOk() ? made.status() : refusal;
    else if (seen.insert(signatureOf((*made)->front(), candidate)).second)
      found.push_back({candidate, schedule, *made});
    step.advance();
  }
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
