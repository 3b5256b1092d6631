//===- tests/mutation/oracle.h - a case's inputs, and what its outputs should be --------------===//
#pragma once

#include "api/status.h"
#include "ir/fusion.h"

#include <memory>

namespace braid::test {

/// The same in every trial. Ranks may ask at the same time.
class Oracle {
public:
  virtual ~Oracle() = default;
  virtual void fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const = 0;
  virtual Status compare(size_t index, int64_t rank, uint32_t iteration,
                         const void *data) const = 0;
};

/// The reference of the runtime. `fusion` is verified and outlives what is returned.
std::unique_ptr<Oracle> referenceOracle(const Fusion &fusion);
/// Plain loops over small global tensors of small random integers, so that every sum is exact in
/// any order. Takes any fusion, contraction over devices included.
std::unique_ptr<Oracle> smallOracle(const Fusion &fusion);

} // namespace braid::test
