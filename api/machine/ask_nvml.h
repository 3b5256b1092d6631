//===- api/machine/ask_nvml.h - asks NVML, which may never answer -----------------------------===//
#pragma once

#include "api/machine/nvml.h"

#include <chrono>

namespace braid {

/// A driver that has just been loaded takes a second or two for each GPU.
inline constexpr std::chrono::milliseconds kNvmlPatience{20000};

/// As readNvml(), by a process of its own, for the driver may never answer. Blocks for `patience`
/// at most. TimedOut: it does not, and nvidia-smi would hang, too. PeerFailed: the library crashed.
Result<NvmlReport> askNvml(const Environment &environment,
                           std::chrono::milliseconds patience = kNvmlPatience);

} // namespace braid
