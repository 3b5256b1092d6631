//===- api/machine/gpu_count.h - the number of GPUs that this process can use -----------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Returns 0 if there is no GPU, no driver, or no cuda backend in this build. Queries the driver,
/// which takes about 100 ms.
int64_t gpuCount();

} // namespace braid
