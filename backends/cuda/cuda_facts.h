//===- backends/cuda/cuda_facts.h - CUDA's description of this machine ------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

/// Implements Backend::facts; creates no context on any device.
///
///   driver, runtime       CUDA's version numbers, 13000; driver is 0 if there is none
///   devices               number of devices that this process can use
///   why none              CUDA's reason, if there are no devices
///   N.pci                 address of device N: "0000:18:00.0"
///   N.ipc, N.vmm, N.fd    1 or 0: exports memory by CUDA IPC; supports virtual memory management;
///                         exports such memory as file descriptors
///   N.mode                CUDA's number of the compute mode
///   A.access.B            1 or 0: device A can access the memory of B
///   cublaslt file, cublaslt version, cublaslt error
BackendFacts cudaFacts();

} // namespace braid
