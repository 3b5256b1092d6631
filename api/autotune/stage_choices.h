//===- api/autotune/stage_choices.h - the choices for each stage so far -----------------------===//
//
// The stages of a fusion compete for resources, so the best choice for one depends on the others.
// They are chosen in sequence: the candidates of one stage are compared while the other stages keep
// their best choices so far.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

class StageChoices {
public:
  /// Starts without choices. `given` is not varied. A fusion without stages counts as one stage.
  StageChoices(std::vector<FusionStage> stages, const Configurations &given);

  size_t count() const { return stages_.size(); }
  bool areSeveral() const { return count() > 1; }
  const FusionStage &stage(size_t index) const { return stages_[index]; }
  /// The user's choices for the stage and the run.
  const Configuration &given(size_t stage) const { return given_[stage]; }
  bool isBegun() const { return isBegun_; }
  /// The best choice so far for the stage, with the knobs of the run.
  Candidate best(size_t stage) const { return run_.over(best_[stage]); }
  /// Returns the configurations of the whole fusion, with `candidate` for the stage. If there are
  /// several stages, each is named.
  Configurations with(size_t stage, const Candidate &candidate) const;
  /// Makes `candidate` the best choice for the stage.
  void take(size_t stage, const Candidate &candidate);

private:
  std::vector<FusionStage> stages_;
  std::vector<Configurations::OfStage> givenStages_;
  std::vector<Configuration> given_, best_; ///< one for each stage
  Configuration run_;                       ///< the best knobs of the run so far
  bool isBegun_ = false;                    ///< take() was called
};

} // namespace braid
