//===- api/autotune/lowered_candidates.h - candidates with their Plans, each kind of run once -===//
#pragma once

#include "api/autotune/candidate.h"
#include "runtime/plan/plan.h"

#include <map>
#include <memory>
#include <set>

namespace braid {

/// The Plans of all ranks.
using SharedPlans = std::shared_ptr<const std::vector<Plan>>;

struct LoweredCandidate {
  Candidate candidate;
  SharedPlans plans; ///< shared with those that are lowered the same
  double predictedUs = 0;
  std::optional<double> measuredUs = {};
};

/// What candidates of one fusion are lowered to.
class CandidateLowering {
public:
  /// `text` holds the fusion, `name` is its file; `given` is not varied. All outlive this.
  CandidateLowering(const std::string &name, const std::string &text, const CompileOptions &given,
                    int64_t ranks)
      : name_(name), text_(text), given_(given), ranks_(ranks) {}

  /// Finds out what follows from any schedule. BadInput if there is a program already; otherwise
  /// fails as compile() does.
  Status findFusion();
  const std::string &fusion() const { return fusion_; } ///< its name
  int64_t blockRows() const { return blockRows_; }      ///< of a rank's block

  /// Appends those that can be lowered, and that do not come to the same commands as one before.
  void lower(llvm::ArrayRef<Candidate> candidates, std::vector<LoweredCandidate> &lowered);
  /// Why the first that could not be lowered could not.
  const Status &refusal() const { return refusal_; }

private:
  Result<std::vector<Plan>> makePlans(CompileOptions options);
  SharedPlans plansOf(const Candidate &candidate);

  const std::string &name_, &text_;
  const CompileOptions &given_;
  const int64_t ranks_;
  std::string fusion_;
  int64_t blockRows_ = 0;
  std::map<std::string, SharedPlans> plans_; ///< null: refused
  std::set<std::string> seen_;               ///< what rank 0 does, and how it is issued
  Status refusal_;
};

} // namespace braid
