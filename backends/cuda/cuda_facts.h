//===- backends/cuda/cuda_facts.h - CUDA's description of this machine ------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

/// Implements Backend::facts; creates no context on any device.
///
///   driver, runtime       CUDA's version numbers, 13000; no driver: 0
///   devices               how many this process can use
///   why none              CUDA's reason, where that is 0
///   N.pci                 of device N: "0000:18:00.0"
///   N.ipc, N.vmm, N.fd    1 or 0: exports memory by CUDA IPC; has memory that is mapped by
///                         addresses; exports that as file descriptors
///   N.mode                CUDA's number of the compute mode
///   A.access.B            1 or 0: device A can reach the memory of B
///   cublaslt file, cublaslt version, cublaslt error
BackendFacts cudaFacts();

} // namespace braid
