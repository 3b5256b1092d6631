//===- api/simulate/predict_schedules.cpp - what `auto` would choose on a machine -------------===//

#include "api/autotune/candidates.h"
#include "api/autotune/lowered_candidates.h"
#include "api/autotune/stage_choices.h"
#include "api/simulate/simulate_program.h"
#include "ir/failure.h"
#include "lowering/stages/configure_stages.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace braid {
namespace {

/// Ranks that are compared for each candidate.
constexpr int64_t kMostCompared = 4;

/// Predicts the candidates for one stage after the other.
class SchedulePredictor {
public:
  SchedulePredictor(const Source &source, const CompileOptions &given, const CostModel &model,
                    const ProgressFn &progress)
      : name_(source.diags.fileName()), text_(source.diags.text()), given_(given), model_(model),
        progress_(progress) {
    for (const OperationCosts &costs : model.operations)
      if (!llvm::is_contained(launchModes_, costs.launchMode))
        launchModes_.push_back(costs.launchMode);
    transferModes_ = transferModesOf([&](TransferMode mode) {
      return llvm::any_of(launchModes_,
                          [&](LaunchMode launch) { return model.find(launch, mode); });
    });
    narrowModes(given.schedule.all, launchModes_, transferModes_);
  }

  Result<std::vector<PredictedSchedule>> predict() {
    const std::unique_ptr<Source> source = parseSource(name_, text_);
    CompileOptions options = given_;
    options.schedule.all = completed(given_.schedule.all);
    Result<Compiled> compiled = compile(*source, options);
    if (!compiled)
      return withLocated(compiled.status(), *source);
    if (!compiled->isLowered)
      return badInput("--schedule auto: @{} in '{}' is a program already",
                      compiled->program->name(), name_);
    StageChoices choices(stagesOf(*compiled->fusion, source->diags), given_.schedule);
    for (size_t stage = 0; stage < choices.count(); ++stage)
      BRAID_TRY(choose(choices, stage));
    std::vector<PredictedSchedule> all;
    for (Predicted &each : predicted_)
      all.push_back(std::move(each.predicted));
    return all;
  }

private:
  struct Predicted {
    Candidate candidate;
    PredictedSchedule predicted;
  };

  Status choose(StageChoices &choices, size_t stage) {
    predicted_.clear();
    known_.clear();
    const CandidateSpace space{choices.given(stage), launchModes_, transferModes_,
                               choices.stage(stage)};
    std::vector<Candidate> candidates = broadCandidates(space);
    if (choices.isBegun())
      candidates.insert(candidates.begin(), choices.best(stage));
    addAll(candidates, choices, stage);
    if (predicted_.empty())
      return refusal_.isOk() ? unsupported("expected a candidate that can be predicted, got none")
                             : refusal_;
    std::vector<Candidate> bestFirst, variants;
    for (const Predicted &each : predicted_)
      bestFirst.push_back(each.candidate);
    for (const Candidate &best : worthVariants(bestFirst))
      llvm::append_range(variants, variantsOf(best, space));
    addAll(variants, choices, stage);
    choices.take(stage, predicted_.front().candidate);
    return Status::ok();
  }

  /// The fastest predictions then come first.
  void addAll(llvm::ArrayRef<Candidate> candidates, const StageChoices &choices, size_t stage) {
    ProgressStep step(progress_, "predicting schedules", "candidates", candidates.size());
    for (const Candidate &candidate : candidates) {
      const Status status = add(candidate, choices.with(stage, candidate));
      if (refusal_.isOk())
        refusal_ = status;
      step.advance();
    }
    llvm::stable_sort(predicted_, [](const Predicted &a, const Predicted &b) {
      return a.predicted.prediction.burstUs < b.predicted.prediction.burstUs;
    });
  }

  /// Leaves out a candidate that does what another one does.
  Status add(const Candidate &candidate, const Configurations &schedule) {
    const std::unique_ptr<Source> source = parseSource(name_, text_);
    Result<Compiled> compiled = compile(*source, applyTo(given_, schedule));
    if (!compiled)
      return withLocated(compiled.status(), *source);
    Result<std::vector<Plan>> plans = plansToSimulate(*compiled, kMostCompared);
    if (!plans)
      return withLocated(plans.status(), *source);
    const LaunchMode launchMode = launchModeOf(candidate);
    const TransferMode transferMode = transferModeOf(candidate);
    if (!known_.insert(signatureOf(plans->front(), transferMode, launchMode)).second)
      return Status::ok();
    MachinePrediction prediction =
        BRAID_TRY(simulateProgram(*plans, model_, {launchMode, transferMode}));
    predicted_.push_back({candidate, {schedule, std::move(prediction)}});
    return Status::ok();
  }

  const std::string name_, text_;
  const CompileOptions &given_;
  const CostModel &model_;
  const ProgressFn &progress_;
  std::vector<LaunchMode> launchModes_;
  std::vector<TransferMode> transferModes_;
  std::vector<Predicted> predicted_; ///< for the stage that is chosen for
  std::set<uint64_t> known_;         ///< signatures of their Plans
  Status refusal_;                   ///< the first one
};

} // namespace

Result<std::vector<PredictedSchedule>> predictSchedules(const Source &source,
                                                        const CompileOptions &given,
                                                        const CostModel &model,
                                                        const ProgressFn &progress) {
  return SchedulePredictor(source, given, model, progress).predict();
}

} // namespace braid
