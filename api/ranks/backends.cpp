//===- api/ranks/backends.cpp - the backends of this build and their capabilities -------------===//

#include "api/ranks/backends.h"

#include "api/compile/compile.h"
#include "ir/failure.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
#ifdef BRAID_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

namespace braid {

BackendRegistry builtinBackends() {
  BackendRegistry registry;
  registerCpuBackend(registry);
#ifdef BRAID_HAS_CUDA
  registerGpuBackends(registry);
#endif
  registerNullBackend(registry);
  return registry;
}

int64_t gpuCount() {
#ifdef BRAID_HAS_CUDA
  return countGpus();
#else
  return 0;
#endif
}

bool choosesByItself(const Backend &backend) {
  return !backend.isOnHost && backend.transport == Transport::PeerMemory;
}

Status checkModes(const Configuration &config, const Backend &backend) {
  auto has = [&](Knob knob) {
    if (knob == Knob::DataPlane)
      return transportOf(config, backend.transport) == backend.transport || backend.messages;
    return knob == Knob::Launch ? backend.hasGraphs : backend.hasGraphs && !backend.isOnHost;
  };
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() &&
        config.get(row.knob).value_or(row.fallback.value_or(-1)) != row.fallback.value_or(-1) &&
        !has(row.knob))
      return unsupported("--{} {} requires the cuda {}backend, got {}", row.name,
                         row.str(config.get(row.knob)),
                         row.knob == Knob::DataPlane ? "or the cpu " : "", backend.name);
  return Status::ok();
}

} // namespace braid
