//===- tests/mutation/trial.h - runs Plans in given orders and compares results ---------------===//
#pragma once

#include "tests/mutation/cases.h"
#include "tests/mutation/orders.h"

namespace braid::test {

struct TrialOptions {
  uint32_t queues = 0; ///< see ClusterOptions::queues
  uint32_t runs = 3;   ///< runs in each round, issued back to back
  bool compares = true;
  /// If true, all runs use the same addresses, as the checker assumes, and the caller writes inputs
  /// and reads outputs on the main stream between runs. If false, the runs of every second round
  /// use different addresses, whose contents are written in advance.
  bool alwaysSameAddresses = false;
};

/// Prepares `plans` on a new cluster of the cpu backend, runs rounds in the given orders, and
/// compares every element of every run with the case's oracle. Returns the first failure of any
/// rank: BadInput from prepare(), WrongResult, or TimedOut for a deadlock.
Status runTrial(const Case &original, llvm::ArrayRef<Plan> plans, Orders &orders,
                const TrialOptions &options);

} // namespace braid::test
