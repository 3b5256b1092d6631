//===- api/machine/gpu_count.h - how many GPUs this process can use ---------------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// 0 where there is none, no driver, or no cuda backend in this build. Asks the driver, which takes
/// some 100 ms.
int64_t gpuCount();

} // namespace braid
