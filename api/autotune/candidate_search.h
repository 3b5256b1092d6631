//===- api/autotune/candidate_search.h - the candidates of a stage, sorted by prediction ------===//
#pragma once

#include "api/autotune/candidates.h"
#include "api/autotune/schedule_choice.h"
#include "api/autotune/stage_choices.h"
#include "runtime/progress.h"

#include <map>

namespace braid {

/// Finds the candidates of one fusion, one stage after the other.
class CandidateSearch {
public:
  /// Makes Plans that represent all ranks.
  using MakePlans = std::function<Result<std::vector<Plan>>(const Compiled &compiled)>;

  /// `text` contains the fusion, `name` is its file; `given` is not varied. All must outlive this.
  CandidateSearch(const std::string &name, const std::string &text, const CompileOptions &given,
                  MakePlans makePlans, ProgressFn progress)
      : name_(name), text_(text), given_(given), makePlans_(std::move(makePlans)),
        progress_(std::move(progress)) {}

  /// Finds the fusion and its stages. Must be called first. Returns BadInput if `text` is a
  /// program; otherwise fails like compile().
  Status findFusion();
  const Fusion &fusion() const { return *compiled_.fusion; }
  /// The best candidate of each stage so far.
  StageChoices &choices() { return choices_; }
  bool canLower(const Configurations &schedule) const;

  /// Returns the candidates for the stage that can be lowered, with the best choices so far for the
  /// other stages. Candidates with equal Plans and modes count once. `mayDrift` is that of
  /// CandidateSpace. If there are none, fails like the first one.
  Result<std::vector<JudgedCandidate>> find(size_t stage, const RunModes &modes, bool mayDrift);
  /// Sorts candidates by their predicted times, the fastest first. Leaves out those that cannot be
  /// predicted; if none remains, fails like the first one.
  Status sortByPrediction(std::vector<JudgedCandidate> &candidates, const CostModel &model) const;

private:
  using Plans = Result<std::shared_ptr<const std::vector<Plan>>>;

  Result<Compiled> compile(Source &source, const CompileOptions &options) const;
  Plans plansOf(const Configurations &schedule) const;

  const std::string &name_, &text_;
  const CompileOptions &given_;
  const MakePlans makePlans_;
  const ProgressFn progress_;
  std::unique_ptr<Source> source_; ///< contains the fusion
  Compiled compiled_;
  StageChoices choices_{{}, {}};
};

} // namespace braid
