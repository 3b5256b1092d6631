//===- api/ranks/backends.h - the backends of this build and their capabilities ---------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/execute/backend.h"

namespace braid {

BackendRegistry builtinBackends();

/// Returns the number of GPUs that this process can use, or 0 if there is no driver, or no cuda
/// backend in this build. Queries the driver, which takes about 100 ms.
int64_t gpuCount();

/// Returns true if schedules are chosen by measurement by default. This is the case only on GPUs
/// that access peers' memory, because CPU timings vary too much, and message costs are not modeled.
bool choosesByItself(const Backend &backend);
/// Returns Unsupported if `config` sets a run knob to a value that `backend` does not support.
Status checkModes(const Configuration &config, const Backend &backend);

} // namespace braid
