//===- backends/cuda/cuda_facts.h - CUDA's description of the machine -------------------------===//
#pragma once

#include "runtime/execute/backend.h"

namespace braid {

/// Implements Backend::facts. Creates no context on any device.
///
///   driver, runtime       CUDA version numbers, such as 13000; 0 if there is no driver
///   devices               number of devices that this process can use
///   why none              CUDA's explanation if there are no devices
///   N.pci                 PCI address of device N: "0000:18:00.0"
///   N.ipc, N.vmm, N.fd    1 or 0: can export memory by CUDA IPC; supports virtual memory
///                           management; can export that memory as file descriptors
///   N.mode                the compute mode, as numbered by CUDA
///   A.access.B            1 or 0: device A can access the memory of device B
///   cublaslt file, cublaslt version, cublaslt error
BackendFacts cudaFacts();

} // namespace braid
