//===- api/autotune/candidate_search.h - the candidates of a stage, the best predicted first --===//
#pragma once

#include "api/autotune/candidates.h"
#include "api/autotune/contest.h"
#include "api/autotune/schedule_choice.h"
#include "api/autotune/stage_choices.h"
#include "runtime/plan/plan.h"
#include "runtime/progress.h"

#include <map>
#include <memory>
#include <set>

namespace braid {

struct LoweredCandidate : JudgedCandidate {
  /// The Predictor made them. Candidates that are lowered the same share them.
  std::shared_ptr<const std::vector<Plan>> plans;
};

/// The candidates as the rules of a contest see them.
std::vector<PredictedCandidate> predictionsOf(llvm::ArrayRef<LoweredCandidate> candidates);

/// Predicts candidates from the figures of a machine.
class Predictor {
public:
  virtual ~Predictor() = default;
  /// The Plans that stand for all ranks.
  virtual Result<std::vector<Plan>> makePlans(const Compiled &compiled) = 0;
  /// Called before `candidates` are predicted. True if this has changed the figures, so that what
  /// was predicted before no longer holds.
  virtual Result<bool> learn(llvm::ArrayRef<LoweredCandidate> candidates) = 0;
  /// Microseconds of a run in a burst. If this fails, the candidate is left out.
  virtual Result<double> predict(const LoweredCandidate &candidate) = 0;
  /// See worstCase() in candidates.h.
  virtual double worstCaseOf(const Candidate &candidate) const = 0;
};

/// Finds the candidates of one fusion, for one stage after the other.
class CandidateSearch {
public:
  /// `text` holds the fusion, `name` is its file; `given` is not varied. All outlive this.
  CandidateSearch(const std::string &name, const std::string &text, const CompileOptions &given,
                  Predictor &predictor, const ProgressFn &progress = {})
      : name_(name), text_(text), given_(given), predictor_(predictor), progress_(progress) {}

  /// Finds the fusion and its stages. BadInput if there is a program already; otherwise fails as
  /// compile() does. To be called first.
  Status findFusion();
  const Fusion &fusion() const { return *compiled_.fusion; }
  const std::vector<FusionStage> &stages() const { return stages_; }
  bool canLower(const Configurations &schedule) const;

  /// All candidates for the stage, while the others keep what is best so far, which is a candidate,
  /// too. Equal Plans that run in the same way are one candidate. If there is none, fails as the
  /// first one did. The modes and transports of `space` outlive the call.
  Result<std::vector<LoweredCandidate>> search(const StageChoices &choices, size_t stage,
                                               const CandidateSpace &space);

private:
  Result<Compiled> compile(Source &source, const CompileOptions &options) const;
  Result<std::vector<Plan>> makePlans(const CompileOptions &options);
  std::shared_ptr<const std::vector<Plan>> plansOf(const Configurations &schedule);
  Status add(llvm::ArrayRef<Candidate> candidates, const StageChoices &choices, size_t stage);

  const std::string &name_, &text_;
  const CompileOptions &given_;
  Predictor &predictor_;
  const ProgressFn progress_;
  std::unique_ptr<Source> source_; ///< holds the fusion
  Compiled compiled_;
  std::vector<FusionStage> stages_;
  std::map<std::string, std::shared_ptr<const std::vector<Plan>>> plans_; ///< null: refused
  Status refusal_; ///< why the first refused candidate cannot be lowered or predicted
  // State of one search().
  std::vector<LoweredCandidate> found_;
  std::set<uint64_t> seen_; ///< signatures of the first Plans
};

} // namespace braid
