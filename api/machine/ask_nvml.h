//===- api/machine/ask_nvml.h - asks NVML, which may never answer -----------------------------===//
#pragma once

#include "api/machine/ask_within.h"
#include "api/machine/nvml.h"

namespace braid {

/// A driver that has just been loaded takes a second or two for each GPU.
inline constexpr std::chrono::milliseconds kNvmlPatience{20000};

/// As readNvml(). Blocks for `patience` at most: see askWithin().
inline Result<NvmlReport> askNvml(const Environment &environment,
                                  std::chrono::milliseconds patience = kNvmlPatience) {
  return askWithin<NvmlReport>(patience, "NVML", [environment] { return readNvml(environment); });
}

} // namespace braid
