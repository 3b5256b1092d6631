//===- tests/mutation/priority_picker.h - a Picker that favors rare orders --------------------===//
#pragma once

#include "backends/cpu/queue/picker.h"

namespace braid::test {

/// Favors rare orders. Every queue has a random priority, and the runnable queue with the highest
/// priority runs. At `changes` random steps out of the first `steps`, the queue about to run gets
/// the lowest priority. A defect that needs d particular changes is found with a probability of at
/// least 1 / (queues * steps^d), far more than with independent random steps (Burckhardt et al., "A
/// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).
Picker priorityPicker(uint64_t seed, uint32_t changes, uint32_t steps);

} // namespace braid::test
