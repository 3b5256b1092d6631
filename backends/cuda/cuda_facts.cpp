//===- backends/cuda/cuda_facts.cpp - CUDA's description of the machine -----------------------===//

#include "backends/cuda/cuda_facts.h"

#include "backends/cuda/driver.h"
#include "backends/cuda/gemm/cublas_lt.h"
#include "runtime/loader.h"

#include <fmt/format.h>

#include <array>

namespace braid {
namespace {

struct Attribute {
  const char *name;
  CUdevice_attribute attribute;
};
constexpr std::array<Attribute, 3> kAttributes = {
    {{"mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
     {"vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
     {"fd", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}}};

/// Adds a device's facts. `driver` is null if no driver provides all required functions.
void addDevice(BackendFacts &facts, int device, const Driver *driver) {
  std::array<char, 32> address = {};
  if (cudaDeviceGetPCIBusId(address.data(), address.size(), device) == cudaSuccess)
    facts[fmt::format("{}.pci", device)] = address.data();
  // CUDA has an IPC attribute only for events, but it applies to memory as well.
  if (int ipc = 0; cudaDeviceGetAttribute(&ipc, cudaDevAttrIpcEventSupport, device) == cudaSuccess)
    facts[fmt::format("{}.ipc", device)] = std::to_string(ipc);
  for (const Attribute &each : kAttributes)
    if (int value = 0;
        driver && driver->deviceGetAttribute(&value, each.attribute, device) == CUDA_SUCCESS)
      facts[fmt::format("{}.{}", device, each.name)] = std::to_string(value);
}

void addAccess(BackendFacts &facts, int count) {
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to)
      if (int can = 0; from != to && cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess)
        facts[fmt::format("{}.access.{}", from, to)] = std::to_string(can);
}

void addDevices(BackendFacts &facts) {
  int driver = 0, runtime = 0, count = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  facts["driver"] = std::to_string(driver);
  facts["runtime"] = std::to_string(runtime);
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess)
    count = 0;
  facts["devices"] = std::to_string(count);
  if (count == 0)
    facts["why none"] = code == cudaSuccess ? "the device count is 0" : cudaGetErrorString(code);
  if (count > 0) {
    const Result<const Driver *> calls = loadDriver();
    for (int device = 0; device < count; ++device)
      addDevice(facts, device, calls ? *calls : nullptr);
  }
  addAccess(facts, count);
  (void)cudaGetLastError(); // clears errors from rejected queries
}

void addCublasLt(BackendFacts &facts) {
  const Result<const CublasLt *> library = CublasLt::load();
  if (!library) {
    facts["cublaslt error"] = library.status().message();
    return;
  }
  const auto version = (*library)->version;
  facts["cublaslt version"] = std::to_string(version());
  if (const std::string file = fileOf(reinterpret_cast<const void *>(version), ""); !file.empty())
    facts["cublaslt file"] = file;
}

} // namespace

BackendFacts cudaFacts() {
  BackendFacts facts;
  addDevices(facts);
  addCublasLt(facts);
  return facts;
}

} // namespace braid
