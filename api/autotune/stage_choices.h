//===- api/autotune/stage_choices.h - what is chosen for each stage so far --------------------===//
//
// Stages of one fusion get in each other's way, so what is best for one depends on the others. They
// are chosen for one after the other: candidates for one stage, while the others keep what is best
// so far.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/candidate.h"
#include "lowering/stages/fusion_stages.h"

namespace braid {

class StageChoices {
public:
  /// Nothing is chosen yet. `given` is not varied; a fusion without stages is as one.
  StageChoices(std::vector<FusionStage> stages, const Configurations &given);

  size_t count() const { return stages_.size(); }
  bool areSeveral() const { return count() > 1; }
  const FusionStage &stage(size_t index) const { return stages_[index]; }
  /// The user's choices for that stage and for the run.
  const Configuration &given(size_t stage) const { return given_[stage]; }
  bool isBegun() const { return isBegun_; }
  /// That stage's part of what is best so far, with the knobs of the run.
  Candidate best(size_t stage) const { return run_.over(best_[stage]); }
  /// The whole fusion, with `candidate` for that stage. Of several stages, each is named.
  Configurations with(size_t stage, const Candidate &candidate) const;
  /// `candidate` is now the best for that stage.
  void take(size_t stage, const Candidate &candidate);

private:
  std::vector<FusionStage> stages_;
  std::vector<Configurations::OfStage> givenStages_;
  std::vector<Configuration> given_, best_; ///< one for each stage
  Configuration run_;                       ///< knobs of the run, the best so far
  bool isBegun_ = false;                    ///< something has been taken
};

} // namespace braid
