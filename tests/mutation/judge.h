//===- tests/mutation/judge.h - compares the checker's verdict with execution -----------------===//
#pragma once

#include "tests/mutation/mutants.h"

#include "runtime/check/checker.h"

namespace braid::test {

enum class Outcome {
  Refused,   ///< there are no Plans: the checker is never asked
  Guilty,    ///< rejected, and the mistake was seen in a run
  Condemned, ///< rejected by the definition alone: every order is right (`reason` says why)
  Harmless,  ///< accepted, and every run was right
  Unsound,   ///< accepted, and a run failed: the checker is wrong
  Unproven,  ///< rejected, and nothing shows why: the checker is wrong, or this test too weak
};

struct Judgement {
  Outcome outcome = Outcome::Refused;
  std::optional<CheckRule> rule; ///< the violated rule of a rejected mutant
  std::string reason;            ///< Condemned: why only the definition can say so
  std::string detail;            ///< Unsound, Unproven: everything to see it again
  uint32_t queues = 0;           ///< Harmless: that are needed
  uint32_t orders = 0;           ///< random ones that were right
  bool isComplete = false;       ///< all other orders were, too
};

/// Remembers what was harmless, because many mutants have the same Plans.
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
  std::map<std::string, Judgement> harmless_; ///< by Plans
};

} // namespace braid::test
