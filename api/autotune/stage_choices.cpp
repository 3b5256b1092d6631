//===- api/autotune/stage_choices.cpp - the choices for each stage so far ---------------------===//

#include "api/autotune/stage_choices.h"

#include "lowering/stages/configure_stages.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {
namespace {

/// Returns the knobs of the run, or those of one stage.
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

} // namespace

StageChoices::StageChoices(std::vector<FusionStage> stages, const Configurations &given)
    : stages_(std::move(stages)) {
  if (stages_.empty())
    stages_.emplace_back();
  for (const FusionStage &stage : stages_)
    given_.push_back(givenFor(stage, given));
  if (!areSeveral()) {
    best_ = {given_[0].over(fieldsFor(given_[0])), given.stages};
    return;
  }
  for (size_t i = 0; i < count(); ++i)
    best_.stages.push_back(
        {stages_[i].tensors.front(), only(false, given_[i].over(fieldsFor(given_[i])))});
}

Configurations StageChoices::with(size_t stage, const Candidate &candidate) const {
  if (!areSeveral())
    return {candidate, best_.stages};
  Configurations whole{only(true, candidate), best_.stages};
  whole.stages[stage].config = only(false, candidate);
  return whole;
}

} // namespace braid
