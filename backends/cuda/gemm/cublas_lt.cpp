//===- backends/cuda/gemm/cublas_lt.cpp - cuBLASLt, opened when it is needed ------------------===//

#include "backends/cuda/gemm/cublas_lt.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace braid {

Status cublasFailure(cublasStatus_t code, const char *call) {
  return Status(StatusCode::Unsupported,
                fmt::format("cuBLASLt error {} from {}", static_cast<int>(code), call));
}

Result<CublasLt> CublasLt::open() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status(StatusCode::Unsupported,
                  fmt::format("expected cuBLASLt for the GEMMs, got '{}'", dlerror()));
  CublasLt loaded;
  const char *missing = nullptr;
  auto find = [&](const char *symbol, auto &function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, symbol));
    if (!function)
      missing = symbol;
  };
  find("cublasLtGetVersion", loaded.version);
  find("cublasLtCreate", loaded.create);
  find("cublasLtDestroy", loaded.destroy);
  find("cublasLtMatmul", loaded.matmul);
  find("cublasLtMatmulDescCreate", loaded.descCreate);
  find("cublasLtMatmulDescDestroy", loaded.descDestroy);
  find("cublasLtMatmulDescSetAttribute", loaded.descSet);
  find("cublasLtMatrixLayoutCreate", loaded.layoutCreate);
  find("cublasLtMatrixLayoutDestroy", loaded.layoutDestroy);
  find("cublasLtMatmulPreferenceCreate", loaded.preferenceCreate);
  find("cublasLtMatmulPreferenceDestroy", loaded.preferenceDestroy);
  find("cublasLtMatmulPreferenceSetAttribute", loaded.preferenceSet);
  find("cublasLtMatmulAlgoGetHeuristic", loaded.heuristic);
  find("cublasLtMatmulAlgoCheck", loaded.check);
  find("cublasLtMatmulAlgoConfigGetAttribute", loaded.configGet);
  if (missing)
    return Status(StatusCode::Unsupported, fmt::format("{} lacks {}", name, missing));
  return loaded;
}

Result<const CublasLt *> CublasLt::load() {
  static const Result<CublasLt> library = open();
  if (!library)
    return library.status();
  return &*library;
}

} // namespace braid
