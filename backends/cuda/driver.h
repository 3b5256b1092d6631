//===- backends/cuda/driver.h - the few driver functions that the runtime does not offer ------===//
//
// libcuda belongs to the driver and is absent where there is no GPU, so nothing links it: its
// functions are found through the runtime.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"

#include <cuda.h>

#include <cstddef>

namespace braid {

/// Filled once, by loadDriver().
struct Driver {
  CUresult (*streamBatchMemOp)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned) = nullptr;
  CUresult (*getErrorName)(CUresult, const char **) = nullptr;
  CUresult (*deviceGetAttribute)(int *, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*pointerGetAttribute)(void *, CUpointer_attribute, CUdeviceptr) = nullptr;
  CUresult (*memGetAllocationGranularity)(size_t *, const CUmemAllocationProp *,
                                          CUmemAllocationGranularity_flags) = nullptr;
  CUresult (*memCreate)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                        unsigned long long) = nullptr;
  CUresult (*memRelease)(CUmemGenericAllocationHandle) = nullptr;
  CUresult (*memExportToShareableHandle)(void *, CUmemGenericAllocationHandle,
                                         CUmemAllocationHandleType, unsigned long long) = nullptr;
  CUresult (*memImportFromShareableHandle)(CUmemGenericAllocationHandle *, void *,
                                           CUmemAllocationHandleType) = nullptr;
  CUresult (*memAddressReserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr,
                                unsigned long long) = nullptr;
  CUresult (*memAddressFree)(CUdeviceptr, size_t) = nullptr;
  CUresult (*memMap)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
                     unsigned long long) = nullptr;
  CUresult (*memUnmap)(CUdeviceptr, size_t) = nullptr;
  CUresult (*memSetAccess)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) = nullptr;
};

/// Unsupported, with the reason, where there is no driver, or one that is too old.
Result<const Driver *> loadDriver();

/// As cudaFailure, of a function of `driver`.
Status driverFailure(const Driver &driver, CUresult code, const char *call);

/// The memory operation of a stream that stores a value.
inline CUstreamBatchMemOpParams writeOf(const void *word, uint32_t value) {
  CUstreamBatchMemOpParams op = {};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  op.writeValue.value = value;
  return op;
}

/// For functions that return Status or Result.
#define BRAID_CU_RETURN_IF_ERROR(driver, call)                                                     \
  do {                                                                                             \
    if (CUresult braidCuCode = (driver).call; braidCuCode != CUDA_SUCCESS)                         \
      return ::braid::driverFailure(driver, braidCuCode, #call);                                   \
  } while (false)

} // namespace braid
