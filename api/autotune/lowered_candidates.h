//===- api/autotune/lowered_candidates.h - candidates with their Plans, each kind of run once ===//
#pragma once

#include "api/autotune/schedule_choice.h"
#include "api/autotune/stage_choices.h"
#include "runtime/plan/plan.h"

#include <map>
#include <memory>
#include <set>

namespace braid {

/// The Plans of all ranks.
using SharedPlans = std::shared_ptr<const std::vector<Plan>>;

struct LoweredCandidate : JudgedCandidate {
  SharedPlans plans; ///< shared with candidates that are lowered the same
};

/// Equal if nothing decides between two: the same commands, peers and ranges, run in the same way.
uint64_t signatureOf(const Plan &plan, TransferMode transferMode, LaunchMode launchMode);

/// Lowers the candidates of one fusion.
class CandidateLowering {
public:
  /// `text` holds the fusion, `name` is its file; `given` is not varied. All outlive this.
  CandidateLowering(const std::string &name, const std::string &text, const CompileOptions &given,
                    int64_t ranks)
      : name_(name), text_(text), given_(given), ranks_(ranks) {}

  /// Finds out what follows from any schedule. BadInput if there is a program already; otherwise
  /// fails as compile() does.
  Status findFusion();
  const std::string &fusion() const { return fusion_; }         ///< its name
  const std::string &fusionText() const { return fusionText_; } ///< with the parameters' values
  const std::vector<FusionStage> &stages() const { return stages_; }
  /// That it can be lowered so.
  bool accepts(const Configurations &schedule) { return plansOf(schedule) != nullptr; }

  /// Appends those candidates for a stage that can be lowered, and that do not come to the same
  /// commands as one that was appended since begin().
  void lower(llvm::ArrayRef<Candidate> candidates, const StageChoices &choices, size_t stage,
             std::vector<LoweredCandidate> &lowered);
  /// Another list of candidates is made from now on.
  void begin() { seen_.clear(); }
  /// Why the first that could not be lowered could not.
  const Status &refusal() const { return refusal_; }

private:
  Result<Compiled> compile(Source &source, CompileOptions options) const;
  Result<std::vector<Plan>> makePlans(const CompileOptions &options) const;
  SharedPlans plansOf(const Configurations &schedule);

  const std::string &name_, &text_;
  const CompileOptions &given_;
  const int64_t ranks_;
  std::string fusion_, fusionText_;
  std::vector<FusionStage> stages_;
  std::map<std::string, SharedPlans> plans_; ///< null: refused
  std::set<uint64_t> seen_;                  ///< signatures of rank 0's Plans
  Status refusal_;
};

} // namespace braid
