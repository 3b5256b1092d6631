//===- api/ranks/backends.h - the backends of this build and their capabilities ---------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/execute/backend.h"

namespace braid {

BackendRegistry builtinBackends();

/// Returns true if schedules are chosen by measurement by default, that is, on GPUs that access
/// peers' memory: CPU timings vary too much, and the cost model lacks costs for messages.
bool choosesByItself(const Backend &backend);
/// Returns Unsupported if `config` sets a run knob to a value that `backend` does not support.
Status checkModes(const Configuration &config, const Backend &backend);

} // namespace braid
