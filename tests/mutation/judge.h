//===- tests/mutation/judge.h - compares the checker's verdict with executions ----------------===//
#pragma once

#include "tests/mutation/mutants.h"

#include "runtime/check/checker.h"

namespace braid::test {

enum class Outcome {
  Refused,   ///< there are no Plans, so the checker is not called
  Guilty,    ///< rejected, and a run showed the mistake
  Condemned, ///< rejected only by definition: every order is correct (see `reason`)
  Harmless,  ///< accepted, and every run gave the right result
  Unsound,   ///< accepted, but a run failed: the checker is wrong
  Unproven,  ///< rejected, but no run shows why: the checker is wrong or this test is too weak
};

struct Judgement {
  Outcome outcome = Outcome::Refused;
  std::optional<CheckRule> rule; ///< the rule that a rejected mutant violates
  std::string reason;            ///< Condemned: why no run can show the mistake
  std::string detail;            ///< Unsound, Unproven: the information needed to reproduce it
  uint32_t queues = 0;           ///< Harmless: required number of queues
  uint32_t orders = 0;           ///< number of random orders that gave the right result
  bool isComplete = false;       ///< true if all possible orders were tried
};

/// Judges the mutants of a case. Caches harmless mutants, because many mutants have equal Plans.
class Judge {
public:
  explicit Judge(const Case &original) : original_(original) {}
  Judgement judge(const Mutant &mutant);

private:
  Judgement judgeAccepted(const Mutant &mutant, uint32_t queues);
  Judgement judgeRejected(const Mutant &mutant, const CheckReport &report);
  Status tryOrders(const Mutant &mutant, uint32_t queues, Judgement &judgement);
  bool isAlwaysRight(const Mutant &mutant);
  bool isShown(const Mutant &mutant, const Violation &violation);
  bool isStuck(const Mutant &mutant, const Violation &violation, uint32_t queues);
  bool bothOrdersHappen(const Mutant &mutant, const Violation &violation);
  bool passesTooEarly(const Mutant &mutant);
  bool hasSeveralOrders(const Mutant &mutant);
  bool failsSomehow(const Mutant &mutant);

  const Case &original_;
  std::map<std::string, Judgement> harmless_; ///< by fingerprint of the Plans
};

} // namespace braid::test
