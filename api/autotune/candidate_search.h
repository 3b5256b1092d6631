//===- api/autotune/candidate_search.h - the candidates of a stage, the best predicted first --===//
#pragma once

#include "api/autotune/candidates.h"
#include "api/autotune/schedule_choice.h"
#include "api/autotune/stage_choices.h"
#include "runtime/progress.h"

#include <map>
#include <set>

namespace braid {

/// The machine that candidates are predicted for.
struct PredictedMachine {
  const CostModel &model;
  bool hasCopyEngines = false; ///< see worstCase() in candidates.h
  /// The Plans that stand for all ranks.
  std::function<Result<std::vector<Plan>>(const Compiled &compiled)> makePlans;
  /// Called before `candidates` are predicted. True if this has changed the model, so that what was
  /// predicted before no longer holds. May be null.
  std::function<Result<bool>(llvm::ArrayRef<JudgedCandidate> candidates)> learn = nullptr;
};

/// Finds the candidates of one fusion, for one stage after the other.
class CandidateSearch {
public:
  /// `text` holds the fusion, `name` is its file; `given` is not varied. All outlive this.
  CandidateSearch(const std::string &name, const std::string &text, const CompileOptions &given,
                  PredictedMachine machine, ProgressFn progress)
      : name_(name), text_(text), given_(given), machine_(std::move(machine)),
        progress_(std::move(progress)) {}

  /// Finds the fusion and its stages. BadInput if there is a program already; otherwise fails as
  /// compile() does. To be called first.
  Status findFusion();
  const Fusion &fusion() const { return *compiled_.fusion; }
  /// The best of each stage so far.
  StageChoices &choices() { return choices_; }
  bool canLower(const Configurations &schedule) const;

  /// All candidates for the stage, while the others keep what is best so far, which is a candidate,
  /// too. Equal Plans that run in the same way are one candidate. A candidate that cannot be
  /// predicted is left out. If there is none, fails as the first one did.
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
  std::unique_ptr<Source> source_; ///< holds the fusion
  Compiled compiled_;
  StageChoices choices_{{}, {}};
  std::map<std::string, std::shared_ptr<const std::vector<Plan>>> plans_; ///< null: refused
  Status refusal_; ///< why the first refused candidate cannot be lowered or predicted
  // State of one search().
  std::vector<JudgedCandidate> found_;
  std::set<uint64_t> seen_; ///< signatures of the first Plans
};

} // namespace braid
