//===- api/ranks/backends.h - the backends of this build and their capabilities ---------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/execute/backend.h"

namespace braid {

BackendRegistry builtinBackends();

/// Returns true if Braid measures schedules by default: on GPUs that access peers' memory. Times on
/// the host's cores vary, and the cost model does not know the costs of messages.
bool choosesByItself(const Backend &backend);
/// Returns Unsupported if `config` has a value for a knob of the run that the backend lacks.
Status checkModes(const Configuration &config, const Backend &backend);

} // namespace braid
