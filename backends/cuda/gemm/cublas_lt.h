//===- backends/cuda/gemm/cublas_lt.h - cuBLASLt, opened when it is needed --------------------===//
//
// A binary that was built with the library starts without it, too, and says what is missing.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <cublasLt.h>

namespace braid {

/// The functions of the library that are used here.
class CublasLt {
public:
  /// Opens the library, once. Unsupported, with the reason, where it is missing.
  static Result<const CublasLt *> load();

  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) descCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) descDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) descSet = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layoutDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preferenceSet = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) configGet = nullptr;

private:
  static Result<CublasLt> open();
};

/// `call` is the text of what returned `code`.
Status cublasFailure(cublasStatus_t code, const char *call);

/// For functions that return Status or Result.
#define BRAID_CUBLAS_RETURN_IF_ERROR(call)                                                         \
  do {                                                                                             \
    if (cublasStatus_t braidCublasCode = (call); braidCublasCode != CUBLAS_STATUS_SUCCESS)         \
      return ::braid::cublasFailure(braidCublasCode, #call);                                       \
  } while (false)

} // namespace braid
