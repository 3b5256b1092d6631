//===- api/ranks/backends.h - the backends of this build, and what they can do ----------------===//
#pragma once

#include "lowering/schedule/configuration.h"
#include "runtime/execute/backend.h"

namespace braid {

BackendRegistry builtinBackends();

/// True if a schedule that the user does not name is measured: on GPUs that reach peers' memory.
/// The times of the host's own cores vary, and the cost model does not know the costs of messages.
bool choosesByItself(const Backend &backend);
/// Unsupported if `config` gives a knob of the run a value that only GPUs have, or messages not.
Status checkModes(const Configuration &config, const Backend &backend);

} // namespace braid
