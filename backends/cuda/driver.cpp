//===- backends/cuda/driver.cpp - driver functions that the runtime does not offer ------------===//

#include "backends/cuda/driver.h"

#include "ir/failure.h"

#include <fmt/format.h>

namespace braid {

Status cudaFailure(cudaError_t code, const char *call) {
  (void)cudaGetLastError(); // clears the error, so that no later launch reports it
  // A lack of memory and a missing GPU are limits of the machine. Any other error in a correct
  // program means that a device or a peer is lost.
  bool isLimit = code == cudaErrorMemoryAllocation || code == cudaErrorNoDevice ||
                 code == cudaErrorInsufficientDriver || code == cudaErrorNotSupported;
  return Status(
      isLimit ? StatusCode::Unsupported : StatusCode::PeerFailed,
      fmt::format("{} ({}) from {}", cudaGetErrorString(code), cudaGetErrorName(code), call));
}

Status driverFailure(const Driver &driver, CUresult code, const char *call) {
  const bool isLimit = code == CUDA_ERROR_OUT_OF_MEMORY || code == CUDA_ERROR_NOT_SUPPORTED ||
                       code == CUDA_ERROR_NOT_PERMITTED;
  const char *name = "an unknown error";
  (void)driver.getErrorName(code, &name);
  return Status(isLimit ? StatusCode::Unsupported : StatusCode::PeerFailed,
                fmt::format("{} from {}", name, call));
}

namespace {

template <class Function> Status find(const char *name, Function &function) {
  constexpr unsigned kSince = 12000; // the first CUDA version that can capture these operations
  void *address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &address, kSince, cudaEnableDefault, &found);
  if (code != cudaSuccess || found != cudaDriverEntryPointSuccess || !address)
    return unsupported(
        "cannot find {} in the NVIDIA driver, which must support CUDA 12 or later: {}", name,
        cudaGetErrorString(code));
  function = reinterpret_cast<Function>(address);
  return Status::ok();
}

Result<Driver> load() {
  Driver driver;
#define BRAID_DRIVER_FIND(Member, Name) BRAID_TRY(find("cu" #Name, driver.Member));
  BRAID_DRIVER_FUNCTIONS(BRAID_DRIVER_FIND)
#undef BRAID_DRIVER_FIND
  return driver;
}

} // namespace

Result<const Driver *> loadDriver() {
  static const Result<Driver> driver = load();
  if (!driver)
    return driver.status();
  return &*driver;
}

} // namespace braid
