//===- backends/cuda/gemm/cublas_lt.h - cuBLASLt, opened on demand ----------------------------===//
//
// Binaries built with cuBLASLt also start on machines without cuBLASLt; load() then fails.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cublasLt.h>

namespace braid {

/// Entry points, without the prefix `cublasLt`: NAME(member, name).
#define BRAID_CUBLAS_FUNCTIONS(NAME)                                                               \
  NAME(version, GetVersion)                                                                        \
  NAME(create, Create)                                                                             \
  NAME(destroy, Destroy)                                                                           \
  NAME(matmul, Matmul)                                                                             \
  NAME(descCreate, MatmulDescCreate)                                                               \
  NAME(descDestroy, MatmulDescDestroy)                                                             \
  NAME(descSet, MatmulDescSetAttribute)                                                            \
  NAME(layoutCreate, MatrixLayoutCreate)                                                           \
  NAME(layoutDestroy, MatrixLayoutDestroy)                                                         \
  NAME(preferenceCreate, MatmulPreferenceCreate)                                                   \
  NAME(preferenceDestroy, MatmulPreferenceDestroy)                                                 \
  NAME(preferenceSet, MatmulPreferenceSetAttribute)                                                \
  NAME(heuristic, MatmulAlgoGetHeuristic)                                                          \
  NAME(check, MatmulAlgoCheck)                                                                     \
  NAME(configGet, MatmulAlgoConfigGetAttribute)

/// The library functions that Braid calls.
struct CublasLt {
#define BRAID_CUBLAS_MEMBER(Member, Name) decltype(&cublasLt##Name) Member = nullptr;
  BRAID_CUBLAS_FUNCTIONS(BRAID_CUBLAS_MEMBER)
#undef BRAID_CUBLAS_MEMBER

  /// Opens the library once. Fails with Unsupported and the reason if the library is unavailable.
  static Result<const CublasLt *> load();
};

/// Converts `code`, the result of the expression `call`.
Status cublasFailure(cublasStatus_t code, const char *call);

/// Returns the error of a failed call from the enclosing function, which returns Status or Result.
#define BRAID_CUBLAS_RETURN_IF_ERROR(call)                                                         \
  do {                                                                                             \
    if (cublasStatus_t braidCublasCode = (call); braidCublasCode != CUBLAS_STATUS_SUCCESS)         \
      return ::braid::cublasFailure(braidCublasCode, #call);                                       \
  } while (false)

} // namespace braid
