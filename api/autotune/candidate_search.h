//===- api/autotune/candidate_search.h - the candidates for a stage, sorted by prediction -----===//
//
// The stages of a fusion compete for resources, so the best candidate for one stage depends on the
// other stages. Stages are tuned one after another: the candidates for a stage are compared while
// all other stages use their best candidates so far.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/candidates.h"
#include "runtime/progress.h"

namespace braid {

/// Finds the candidates for one fusion, stage by stage.
class CandidateSearch {
public:
  /// Returns the Plans to evaluate: one per rank, or a subset that represents all ranks.
  using MakePlans = std::function<Result<std::vector<Plan>>(const Compiled &compiled)>;

  /// `text`, read from file `name`, contains the fusion. Knobs set in `given` are not varied. All
  /// arguments passed by reference must outlive this object.
  CandidateSearch(const std::string &name, const std::string &text, const CompileOptions &given,
                  MakePlans makePlans, ProgressFn progress)
      : name_(name), text_(text), options_(given), makePlans_(std::move(makePlans)),
        progress_(std::move(progress)) {}

  /// Finds the fusion and its stages, and sets best() to the defaults. Must be called first.
  /// Returns BadInput if `text` is a program, or the error of compile() if that fails.
  Status findFusion();
  const Fusion &fusion() const { return *compiled_.fusion; }
  /// Returns the number of stages. A fusion without stages counts as one stage.
  size_t count() const { return stages_.size(); }
  const FusionStage &stage(size_t index) const { return stages_[index]; }
  /// The user's choices for the stage and the run.
  const Configuration &given(size_t stage) const { return given_[stage]; }

  /// The best choices so far, for the whole fusion.
  const Configurations &best() const { return best_; }
  /// Returns best() with `candidate` substituted for `stage`. If there are several stages, the
  /// result names each of them.
  Configurations with(size_t stage, const Candidate &candidate) const;
  void take(Configurations best) { best_ = std::move(best); }
  bool canLower(const Configurations &schedule) const;

  /// Returns the candidates for `stage`, in all modes, that can be lowered together with best() for
  /// the other stages. Omits candidates whose Plans equal those of another candidate. If
  /// `isSteady`, also omits candidates for which mayDrift() returns true, unless it returns true
  /// for all of them. Fails if no candidate can be lowered.
  Result<std::vector<JudgedCandidate>> find(size_t stage, const RunModes &modes, bool isSteady);
  /// Sorts candidates by predicted time, fastest first. Removes candidates whose time cannot be
  /// predicted; if none is left, returns the first error.
  Status sortByPrediction(std::vector<JudgedCandidate> &candidates, const CostModel &model) const;

private:
  Result<Compiled> compile(Source &source, const CompileOptions &options) const;
  Result<std::vector<Plan>> plansOf(const Configurations &schedule) const;

  const std::string &name_, &text_;
  const CompileOptions &options_;
  const MakePlans makePlans_;
  const ProgressFn progress_;
  std::unique_ptr<Source> source_; ///< contains the fusion
  Compiled compiled_;
  std::vector<FusionStage> stages_;
  std::vector<Configuration> given_; ///< one for each stage
  Configurations best_;
};

} // namespace braid
