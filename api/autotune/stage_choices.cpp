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

/// Returns a stage's choice without knobs that messages do not support if `run` sends messages.
Configuration suitedTo(const Configuration &run, Configuration stage) {
  if (transportOf(run, Transport::PeerMemory) == Transport::Messages)
    for (Knob knob : kKnobsOfPeerMemory)
      stage.set(knob, std::nullopt);
  return stage;
}

Configuration givenFor(const FusionStage &stage, const Configurations &given) {
  auto named = llvm::find_if(given.stages, [&](const Configurations::OfStage &each) {
    return llvm::is_contained(stage.tensors, each.tensor);
  });
  return named == given.stages.end() ? given.all : named->config.over(given.all);
}

} // namespace

StageChoices::StageChoices(std::vector<FusionStage> stages, const Configurations &given)
    : stages_(std::move(stages)), givenStages_(given.stages) {
  if (stages_.empty())
    stages_.emplace_back();
  for (const FusionStage &stage : stages_) {
    given_.push_back(givenFor(stage, given));
    best_.push_back(only(false, given_.back().over(fieldsFor(given_.back()))));
  }
}

Configurations StageChoices::with(size_t stage, const Candidate &candidate) const {
  if (!areSeveral())
    return {candidate, givenStages_};
  Configurations whole{only(true, candidate)};
  for (size_t i = 0; i < count(); ++i)
    whole.stages.push_back({stages_[i].tensors.front(),
                            i == stage ? only(false, candidate) : suitedTo(candidate, best_[i])});
  return whole;
}

void StageChoices::take(size_t stage, const Candidate &candidate) {
  isBegun_ = true;
  best_[stage] = only(false, candidate);
  run_ = only(true, candidate);
  for (Configuration &each : best_)
    each = suitedTo(run_, each);
}

} // namespace braid
