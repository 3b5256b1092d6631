//===- tests/mutation/trial.h - runs Plans in chosen orders, and compares ---------------------===//
#pragma once

#include "tests/mutation/cases.h"
#include "tests/mutation/orders.h"

namespace braid::test {

struct TrialOptions {
  uint32_t queues = 0; ///< as ClusterOptions::queues
  uint32_t runs = 3;   ///< runs of a round, issued back to back
  bool compares = true;
  /// All rounds at the same addresses, as in the checker's history: the caller writes inputs and
  /// reads outputs on the main stream, between runs. Otherwise every other round is at addresses
  /// that differ from run to run, written beforehand.
  bool alwaysSameAddresses = false;
};

/// Prepares `plans` on a fresh cluster of the cpu backend and runs round after round in the orders
/// asked for, comparing every element of every run with the case's oracle. The first failure of
/// any rank ends it: BadInput of prepare(), WrongResult, or TimedOut for a deadlock.
Status runTrial(const Case &original, llvm::ArrayRef<Plan> plans, Orders &orders,
                const TrialOptions &options);

} // namespace braid::test
