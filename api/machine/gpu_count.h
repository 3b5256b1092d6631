//===- api/machine/gpu_count.h - the number of GPUs that this process can use -----------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Returns the number of GPUs that this process can use, or 0 if there is no driver, or no cuda
/// backend in this build. Queries the driver, which takes about 100 ms.
int64_t gpuCount();

} // namespace braid
