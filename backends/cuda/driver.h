//===- backends/cuda/driver.h - driver functions that the runtime does not offer --------------===//
//
// libcuda belongs to the driver and is absent on machines without a GPU, so no binary links against
// it. The functions of libcuda are looked up through the CUDA runtime.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"

#include <cuda.h>

#include <cstddef>

namespace braid {

/// Entry points, without the prefix `cu`: NAME(member, name).
#define BRAID_DRIVER_FUNCTIONS(NAME)                                                               \
  NAME(streamBatchMemOp, StreamBatchMemOp)                                                         \
  NAME(getErrorName, GetErrorName)                                                                 \
  NAME(deviceGetAttribute, DeviceGetAttribute)                                                     \
  NAME(pointerGetAttribute, PointerGetAttribute)                                                   \
  NAME(memGetAllocationGranularity, MemGetAllocationGranularity)                                   \
  NAME(memCreate, MemCreate)                                                                       \
  NAME(memRelease, MemRelease)                                                                     \
  NAME(memExportToShareableHandle, MemExportToShareableHandle)                                     \
  NAME(memImportFromShareableHandle, MemImportFromShareableHandle)                                 \
  NAME(memAddressReserve, MemAddressReserve)                                                       \
  NAME(memAddressFree, MemAddressFree)                                                             \
  NAME(memMap, MemMap)                                                                             \
  NAME(memUnmap, MemUnmap)                                                                         \
  NAME(memSetAccess, MemSetAccess)

/// The driver's functions that Braid calls. Filled once, by loadDriver().
struct Driver {
#define BRAID_DRIVER_MEMBER(Member, Name) decltype(&cu##Name) Member = nullptr;
  BRAID_DRIVER_FUNCTIONS(BRAID_DRIVER_MEMBER)
#undef BRAID_DRIVER_MEMBER
};

/// Returns the functions, or Unsupported with the reason if the driver is missing or too old.
Result<const Driver *> loadDriver();

/// Like cudaFailure(), for functions of `driver`.
Status driverFailure(const Driver &driver, CUresult code, const char *call);

/// Returns a memory operation that stores `value` to `word`.
inline CUstreamBatchMemOpParams writeOf(const void *word, uint32_t value) {
  CUstreamBatchMemOpParams op = {};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  op.writeValue.value = value;
  return op;
}

/// Returns the error of a failed call from the enclosing function, which returns Status or Result.
#define BRAID_CU_RETURN_IF_ERROR(driver, call)                                                     \
  do {                                                                                             \
    if (CUresult braidCuCode = (driver).call; braidCuCode != CUDA_SUCCESS)                         \
      return ::braid::driverFailure(driver, braidCuCode, #call);                                   \
  } while (false)

} // namespace braid
