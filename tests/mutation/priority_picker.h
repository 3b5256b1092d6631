//===- tests/mutation/priority_picker.h - a Picker that favours rare orders -------------------===//
#pragma once

#include "backends/cpu/queue/picker.h"

namespace braid::test {

/// Favours rare orders: every queue has a random priority, the highest that can go on always runs,
/// and at `changes` random steps out of the first `steps` the one about to run falls below all
/// others. A defect that needs d particular changes shows up with a chance of at least
/// 1 / (queues * steps^d), far more than if every step were drawn by itself (Burckhardt et al., "A
/// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).
Picker priorityPicker(uint64_t seed, uint32_t changes, uint32_t steps);

} // namespace braid::test
