//===- backends/cuda/cuda_status.h - conversion of CUDA return codes to Status ----------------===//
#pragma once

#include "api/status.h"

#include <cuda_runtime.h>

namespace braid {

/// Converts `code`, the result of the expression `call`.
Status cudaFailure(cudaError_t code, const char *call);

/// Returns the error of a failed call from the enclosing function, which returns Status or Result.
#define BRAID_CUDA_RETURN_IF_ERROR(call)                                                           \
  do {                                                                                             \
    if (cudaError_t braidCudaCode = (call); braidCudaCode != cudaSuccess)                          \
      return ::braid::cudaFailure(braidCudaCode, #call);                                           \
  } while (false)

} // namespace braid
