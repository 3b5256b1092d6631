//===- backends/cuda/driver.h - the few driver functions that the runtime does not offer ------===//
//
// libcuda belongs to the driver and is absent where there is no GPU, so nothing links it: its
// functions are found through the runtime.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"

#include <cuda.h>

namespace braid {

/// Filled once, by loadDriver().
struct Driver {
  CUresult (*streamBatchMemOp)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned) = nullptr;
  CUresult (*getErrorName)(CUresult, const char **) = nullptr;
};

/// Unsupported, with the reason, where there is no driver, or one that is too old.
Result<const Driver *> loadDriver();

} // namespace braid
