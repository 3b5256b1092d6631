//===- api/simulate/predict_schedules.cpp - predicts the choice of `auto` on a machine --------===//

#include "api/autotune/candidate_search.h"
#include "api/simulate/simulate_program.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Returns the modes that `model` contains and `given` allows.
RunModes modesOf(const CostModel &model, const Configuration &given) {
  RunModes modes{.launchModes = {}};
  for (const OperationCosts &costs : model.operations)
    if (!llvm::is_contained(modes.launchModes, costs.launchMode))
      modes.launchModes.push_back(costs.launchMode);
  modes.transferModes = transferModesOf([&](TransferMode mode) {
    return llvm::any_of(modes.launchModes,
                        [&](LaunchMode launch) { return model.find(launch, mode); });
  });
  narrowModes(given, modes);
  return modes;
}

} // namespace

Result<std::vector<PredictedSchedule>> predictSchedules(const Source &source,
                                                        const CompileOptions &given,
                                                        const CostModel &model,
                                                        const ProgressFn &progress) {
  const std::string name = source.diags.fileName(), text = source.diags.text();
  auto makePlans = [](const Compiled &compiled) {
    constexpr int64_t kMostCompared = 4;
    return plansToSimulate(compiled, kMostCompared);
  };
  CandidateSearch search(name, text, given, makePlans, progress);
  BRAID_TRY(search.findFusion());
  std::vector<JudgedCandidate> found;
  for (size_t stage = 0; stage < search.count(); ++stage) {
    found = BRAID_TRY(search.find(stage, modesOf(model, given.schedule.all), /*isSteady=*/false));
    BRAID_TRY(search.sortByPrediction(found, model));
    search.take(found.front().schedule);
  }
  std::vector<PredictedSchedule> all;
  for (const JudgedCandidate &each : found)
    all.push_back({each.schedule,
                   BRAID_TRY(simulateProgram(*each.plans, model,
                                             {.launchMode = launchModeOf(each.candidate),
                                              .transferMode = transferModeOf(each.candidate)}))});
  return all;
}

} // namespace braid
