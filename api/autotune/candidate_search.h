//===- api/autotune/candidate_search.h - the candidates of a stage, sorted by prediction ------===//
//
// The stages of a fusion compete for resources, so the best choice for one depends on the others.
// They are chosen in sequence: the candidates of one stage are compared while the other stages keep
// their best choices so far.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/autotune/candidates.h"
#include "api/autotune/schedule_choice.h"
#include "runtime/progress.h"

namespace braid {

/// Finds the candidates of one fusion, one stage after the other.
class CandidateSearch {
public:
  /// Makes Plans that represent all ranks.
  using MakePlans = std::function<Result<std::vector<Plan>>(const Compiled &compiled)>;

  /// `text` contains the fusion, `name` is its file; `given` is not varied. All must outlive this.
  CandidateSearch(const std::string &name, const std::string &text, const CompileOptions &given,
                  MakePlans makePlans, ProgressFn progress)
      : name_(name), text_(text), options_(given), makePlans_(std::move(makePlans)),
        progress_(std::move(progress)) {}

  /// Finds the fusion and its stages, and starts with the defaults. Must be called first. Returns
  /// BadInput if `text` is a program; otherwise fails like compile().
  Status findFusion();
  const Fusion &fusion() const { return *compiled_.fusion; }
  /// A fusion without stages counts as one stage.
  size_t count() const { return stages_.size(); }
  const FusionStage &stage(size_t index) const { return stages_[index]; }
  /// The user's choices for the stage and the run.
  const Configuration &given(size_t stage) const { return given_[stage]; }

  /// The best choices so far, for the whole fusion.
  const Configurations &best() const { return best_; }
  /// Returns the best choices so far, with `candidate` for the stage. If there are several stages,
  /// each is named.
  Configurations with(size_t stage, const Candidate &candidate) const;
  void take(Configurations best) { best_ = std::move(best); }
  bool canLower(const Configurations &schedule) const;

  /// Returns the candidates for the stage that can be lowered, in all modes, with the best choices
  /// so far for the other stages. Candidates with equal Plans count once. If `isSteady`, leaves out
  /// those that may drift, unless no others remain. If there are none, fails like the first one.
  Result<std::vector<JudgedCandidate>> find(size_t stage, const RunModes &modes, bool isSteady);
  /// Sorts candidates by their predicted times, the fastest first. Leaves out those that cannot be
  /// predicted; if none remains, fails like the first one.
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
