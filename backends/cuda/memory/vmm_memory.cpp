//===- backends/cuda/memory/vmm_memory.cpp - cuMemCreate, opened by file descriptors ----------===//
//
// Unlike CUDA IPC, this provider supports ranks in separate PID and IPC namespaces, because the job
// host passes file descriptors between processes. Each allocation is physical memory on the rank's
// GPU, mapped by the rank itself and by the peers that open it.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/driver.h"
#include "backends/cuda/memory/symmetric_memory.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <map>

namespace braid {
namespace {

constexpr auto kHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Physical memory and its address in this process.
struct Mapped {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  size_t bytes = 0;
};

class VmmMemory final : public SymmetricMemory {
public:
  VmmMemory(ProcessGroup &group, const Driver &driver, int device, size_t granularity)
      : group_(group), driver_(driver), device_(device), granularity_(granularity) {}
  size_t granularity() const override { return granularity_; }
  Result<void *> allocate(size_t bytes) override;
  Result<std::string> exportMemory(void *base) override;
  Result<void *> open(int64_t peer, llvm::StringRef handle) override;
  void free(void *base) override { close(base); }
  void close(void *base) override {
    unmap(mapped_.at(base));
    mapped_.erase(base);
  }

private:
  Result<void *> map(Mapped memory);
  Status mapAt(Mapped &memory) const;
  void unmap(const Mapped &memory) const;

  ProcessGroup &group_;
  const Driver &driver_;
  const int device_;
  const size_t granularity_;
  std::map<void *, Mapped> mapped_; ///< memory of this rank and of peers, by address
  uint32_t offers_ = 0;
};

/// Reserves addresses, maps the memory there, and gives this rank's GPU access.
Status VmmMemory::mapAt(Mapped &memory) const {
  BRAID_CU_RETURN_IF_ERROR(driver_, memAddressReserve(&memory.address, memory.bytes, 0, 0, 0));
  BRAID_CU_RETURN_IF_ERROR(driver_, memMap(memory.address, memory.bytes, 0, memory.handle, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {device_}},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  BRAID_CU_RETURN_IF_ERROR(driver_, memSetAccess(memory.address, memory.bytes, &access, 1));
  return Status::ok();
}

/// Takes ownership of `memory`, and releases it if it cannot be mapped.
Result<void *> VmmMemory::map(Mapped memory) {
  if (Status status = mapAt(memory); !status.isOk()) {
    unmap(memory);
    return status;
  }
  void *base = reinterpret_cast<void *>(memory.address);
  mapped_[base] = memory;
  return base;
}

/// Unmaps and releases memory, even after a failed mapAt().
void VmmMemory::unmap(const Mapped &memory) const {
  if (memory.address) {
    (void)driver_.memUnmap(memory.address, memory.bytes);
    (void)driver_.memAddressFree(memory.address, memory.bytes);
  }
  (void)driver_.memRelease(memory.handle);
}

Result<void *> VmmMemory::allocate(size_t bytes) {
  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = kHandleType;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
  Mapped memory;
  memory.bytes = bytes;
  BRAID_CU_RETURN_IF_ERROR(driver_, memCreate(&memory.handle, bytes, &wanted, 0));
  return map(memory);
}

/// Reuses a few names for offered descriptors, so that the job host does not accumulate one
/// descriptor per allocation. Peers always receive an offer before its name is reused.
Result<std::string> VmmMemory::exportMemory(void *base) {
  constexpr uint32_t kNames = 16;
  const Mapped &memory = mapped_.at(base);
  int number = -1;
  BRAID_CU_RETURN_IF_ERROR(driver_,
                           memExportToShareableHandle(&number, memory.handle, kHandleType, 0));
  const FileDescriptor descriptor(number);
  const std::string name = fmt::format("vmm{}", offers_++ % kNames);
  BRAID_TRY(group_.offer(name, descriptor.get()));
  return fmt::format("{}:{}", memory.bytes, name);
}

Result<void *> VmmMemory::open(int64_t peer, llvm::StringRef text) {
  HandleReader reader(text);
  Mapped memory;
  if (!reader.read(memory.bytes))
    return badInput("expected a VMM handle from rank {}, got '{}'", peer, text.str());
  const FileDescriptor descriptor = BRAID_TRY(group_.want(peer, reader.next().str()));
  BRAID_CU_RETURN_IF_ERROR(
      driver_, memImportFromShareableHandle(
                   &memory.handle,
                   reinterpret_cast<void *>(static_cast<intptr_t>(descriptor.get())), kHandleType));
  Result<void *> base = map(memory);
  return base ? base : base.status().annotated(fmt::format("memory 'vmm' of rank {}", peer));
}

/// Returns the attribute's value, or 0 if the driver does not support the attribute.
int attributeOf(const Driver &driver, CUdevice_attribute attribute, int device) {
  int value = 0;
  return driver.deviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

} // namespace

Result<std::unique_ptr<SymmetricMemory>> makeVmmMemory(ProcessGroup &group) {
  const Driver *driver = BRAID_TRY(loadDriver());
  int device = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  constexpr std::pair<CUdevice_attribute, const char *> kNeeded[] = {
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management"},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
       "sharing memory through file descriptors"}};
  for (const auto &[attribute, what] : kNeeded)
    if (!attributeOf(*driver, attribute, device))
      return unsupported("memory 'vmm' requires a GPU that supports {}", what);
  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = kHandleType;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  size_t granularity = 0;
  BRAID_CU_RETURN_IF_ERROR(
      *driver,
      memGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  return std::unique_ptr<SymmetricMemory>(new VmmMemory(group, *driver, device, granularity));
}

} // namespace braid
