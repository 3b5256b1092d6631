//===- api/autotune/candidate_search.h - the candidates of a stage, sorted by prediction ------===//
#pragma once

#include "api/autotune/candidates.h"
#include "api/autotune/schedule_choice.h"
#include "api/autotune/stage_choices.h"
#include "runtime/progress.h"

#include <map>
#include <set>

namespace braid {

/// The machine for which candidates are predicted.
struct PredictedMachine {
  const CostModel &model;
  bool hasCopyEngines = false; ///< see worstCase() in candidates.h
  /// Makes Plans that represent all ranks.
  std::function<Result<std::vector<Plan>>(const Compiled &compiled)> makePlans;
  /// Called before `candidates` are predicted. Returns true if it has changed the model, so that
  /// earlier predictions are invalid. May be null.
  std::function<Result<bool>(llvm::ArrayRef<JudgedCandidate> candidates)> learn = nullptr;
};

/// Finds the candidates of one fusion, one stage after the other.
class CandidateSearch {
public:
  /// `text` contains the fusion, `name` is its file; `given` is not varied. All must outlive this.
  CandidateSearch(const std::string &name, const std::string &text, const CompileOptions &given,
                  PredictedMachine machine, ProgressFn progress)
      : name_(name), text_(text), given_(given), machine_(std::move(machine)),
        progress_(std::move(progress)) {}

  /// Finds the fusion and its stages. Must be called first. Returns BadInput if `text` is a
  /// program; otherwise fails like compile().
  Status findFusion();
  const Fusion &fusion() const { return *compiled_.fusion; }
  /// The best candidate of each stage so far.
  StageChoices &choices() { return choices_; }
  bool canLower(const Configurations &schedule) const;

  /// Returns all candidates for the stage, with the best choices so far for the other stages. The
  /// best choice so far for this stage is a candidate, too. Candidates with equal Plans and modes
  /// count once. Candidates that cannot be predicted are left out. If none remains, returns the
  /// failure of the first.
  Result<std::vector<JudgedCandidate>> search(size_t stage, const RunModes &modes);

private:
  Result<Compiled> compile(Source &source, const CompileOptions &options) const;
  Result<std::vector<Plan>> makePlans(const CompileOptions &options) const;
  std::shared_ptr<const std::vector<Plan>> plansOf(const Configurations &schedule);
  Result<double> predict(const JudgedCandidate &judged) const;
  void lower(llvm::ArrayRef<Candidate> candidates, size_t stage);
  Status add(llvm::ArrayRef<Candidate> candidates, size_t stage);

  const std::string &name_, &text_;
  const CompileOptions &given_;
  const PredictedMachine machine_;
  const ProgressFn progress_;
  std::unique_ptr<Source> source_; ///< contains the fusion
  Compiled compiled_;
  StageChoices choices_{{}, {}};
  std::map<std::string, std::shared_ptr<const std::vector<Plan>>> plans_; ///< null if refused
  Status refusal_; ///< the reason why the first refused candidate cannot be lowered or predicted
  // State of one search().
  std::vector<JudgedCandidate> found_;
  std::set<uint64_t> seen_; ///< signatures of the candidates' first Plans
};

} // namespace braid
