//===- api/simulate/predict_schedules.cpp - what `auto` would choose on a machine -------------===//

#include "api/autotune/candidate_search.h"
#include "api/simulate/simulate_program.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Predicts by the kept figures of a machine, whose ranks are not here.
class ModelPredictor : public Predictor {
public:
  explicit ModelPredictor(const CostModel &model) : model_(model) {}

  Result<std::vector<Plan>> makePlans(const Compiled &compiled) override {
    constexpr int64_t kMostCompared = 4;
    return plansToSimulate(compiled, kMostCompared);
  }
  Result<bool> learn(llvm::ArrayRef<LoweredCandidate>) override { return false; }
  Result<double> predict(const LoweredCandidate &candidate) override {
    const Simulation simulation = BRAID_TRY(simulate(*candidate.plans, model_, modesOf(candidate)));
    return simulation.burstUs;
  }
  double worstCaseOf(const Candidate &) const override { return 1; }

  static SimulationOptions modesOf(const LoweredCandidate &each) {
    return {.launchMode = launchModeOf(each.candidate),
            .transferMode = transferModeOf(each.candidate)};
  }

private:
  const CostModel &model_;
};

} // namespace

Result<std::vector<PredictedSchedule>> predictSchedules(const Source &source,
                                                        const CompileOptions &given,
                                                        const CostModel &model,
                                                        const ProgressFn &progress) {
  std::vector<LaunchMode> launchModes;
  for (const OperationCosts &costs : model.operations)
    if (!llvm::is_contained(launchModes, costs.launchMode))
      launchModes.push_back(costs.launchMode);
  std::vector<TransferMode> transferModes = transferModesOf([&](TransferMode mode) {
    return llvm::any_of(launchModes, [&](LaunchMode launch) { return model.find(launch, mode); });
  });
  narrowModes(given.schedule.all, launchModes, transferModes);
  const std::string name = source.diags.fileName(), text = source.diags.text();
  ModelPredictor predictor(model);
  CandidateSearch search(name, text, given, predictor, progress);
  BRAID_TRY(search.findFusion());
  StageChoices choices(search.stages(), given.schedule);
  std::vector<LoweredCandidate> found;
  for (size_t stage = 0; stage < choices.count(); ++stage) {
    found = BRAID_TRY(search.search(
        choices, stage, {choices.given(stage), launchModes, transferModes, choices.stage(stage)}));
    choices.take(stage, found.front().candidate);
  }
  std::vector<PredictedSchedule> all;
  for (const LoweredCandidate &each : found)
    all.push_back({each.schedule,
                   BRAID_TRY(simulateProgram(*each.plans, model, ModelPredictor::modesOf(each)))});
  return all;
}

} // namespace braid
