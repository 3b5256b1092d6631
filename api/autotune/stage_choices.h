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
  /// Starts with the defaults. `given` is not varied. A fusion without stages counts as one stage.
  StageChoices(std::vector<FusionStage> stages, const Configurations &given);

  size_t count() const { return stages_.size(); }
  bool areSeveral() const { return count() > 1; }
  const FusionStage &stage(size_t index) const { return stages_[index]; }
  /// The user's choices for the stage and the run.
  const Configuration &given(size_t stage) const { return given_[stage]; }
  /// The best choices so far, for the whole fusion.
  const Configurations &best() const { return best_; }
  /// Returns the best choices so far, with `candidate` for the stage. If there are several stages,
  /// each is named.
  Configurations with(size_t stage, const Candidate &candidate) const;
  /// Makes `candidate` the best choice for the stage.
  void take(size_t stage, const Candidate &candidate) { best_ = with(stage, candidate); }

private:
  std::vector<FusionStage> stages_;
  std::vector<Configuration> given_; ///< one for each stage
  Configurations best_;
};

} // namespace braid
