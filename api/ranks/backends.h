//===- api/ranks/backends.h - the backends of this build and their capabilities ---------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/execute/backend.h"

namespace braid {

BackendRegistry builtinBackends();

/// Returns true if Braid chooses schedules by measurement by default: on GPUs that access peers'
/// memory. Times on the host's cores vary too much, and the cost model lacks costs for messages.
bool choosesByItself(const Backend &backend);
/// Returns Unsupported if `config` sets a run knob to a value that `backend` does not support.
Status checkModes(const Configuration &config, const Backend &backend);

} // namespace braid
