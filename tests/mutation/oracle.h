//===- tests/mutation/oracle.h - a case's inputs and expected outputs -------------------------===//
#pragma once

#include "api/status.h"
#include "ir/fusion.h"

#include <memory>

namespace braid::test {

/// Provides a case's inputs and checks its outputs. The data is the same in every trial.
/// Thread-safe.
class Oracle {
public:
  virtual ~Oracle() = default;
  virtual void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const = 0;
  virtual Status compare(size_t index, int64_t rank, uint32_t iteration,
                         const void *data) const = 0;
};

/// Uses the runtime's reference. `fusion` must be verified and outlive the result.
std::unique_ptr<Oracle> referenceOracle(const Fusion &fusion);
/// Evaluates any fusion with plain loops over small global tensors. Inputs are small random
/// integers, so that every sum is exact in any order.
std::unique_ptr<Oracle> smallOracle(const Fusion &fusion);

} // namespace braid::test
