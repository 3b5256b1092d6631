//===- backends/cuda/gemm/cublas_lt.cpp - cuBLASLt, opened on demand --------------------------===//

#include "backends/cuda/gemm/cublas_lt.h"

#include "backends/nccl/entry_points.h"
#include "ir/failure.h"

namespace braid {

Status cublasFailure(cublasStatus_t code, const char *call) {
  return unsupported("cuBLASLt error {} from {}", static_cast<int>(code), call);
}

static Result<CublasLt> open() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return unsupported("cannot load cuBLASLt for the GEMMs: {}", dlerror());
  CublasLt loaded;
  EntryPoints found(library);
#define BRAID_CUBLAS_FIND(Member, Name) found.find("cublasLt" #Name, loaded.Member);
  BRAID_CUBLAS_FUNCTIONS(BRAID_CUBLAS_FIND)
#undef BRAID_CUBLAS_FIND
  if (found.missing())
    return unsupported("{} lacks {}", name, found.missing());
  return loaded;
}

Result<const CublasLt *> CublasLt::load() {
  static const Result<CublasLt> library = open();
  if (!library)
    return library.status();
  return &*library;
}

} // namespace braid
