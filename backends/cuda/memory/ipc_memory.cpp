//===- backends/cuda/memory/ipc_memory.cpp - cudaMalloc, opened by CUDA IPC handles -----------===//

#include "backends/cuda/memory/symmetric_memory.h"
#include "ir/failure.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

#include <unistd.h>

namespace braid {
namespace {

/// Every allocate() calls cudaMalloc(), because CUDA IPC can export only entire allocations.
class IpcMemory final : public SymmetricMemory {
public:
  size_t granularity() const override { return size_t(2) << 20; } // CUDA IPC's mapping granularity
  Result<void *> allocate(size_t bytes) override;
  Result<std::string> exportMemory(void *base) override;
  Result<void *> open(int64_t peer, llvm::StringRef handle) override;
  void free(void *base) override { cudaFree(base); }
  void close(void *base) override {
    if (mapped_.erase(base) != 0)
      cudaIpcCloseMemHandle(base);
  }

private:
  static Result<void *> openOwn(void *base);

  std::set<void *> mapped_; ///< memory of other processes
};

Result<void *> IpcMemory::allocate(size_t bytes) {
  void *base = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&base, bytes));
  return base;
}

Result<std::string> IpcMemory::exportMemory(void *base) {
  cudaIpcMemHandle_t handle;
  BRAID_CUDA_RETURN_IF_ERROR(cudaIpcGetMemHandle(&handle, base));
  return fmt::format("{}:{}:{}", getpid(), reinterpret_cast<uintptr_t>(base),
                     llvm::toHex(llvm::StringRef(handle.reserved, sizeof(handle.reserved))));
}

/// A process cannot open its own handles, so ranks in the same process (used only in tests) use the
/// address itself.
Result<void *> IpcMemory::open(int64_t peer, llvm::StringRef text) {
  HandleReader reader(text);
  pid_t process = 0;
  uintptr_t address = 0;
  cudaIpcMemHandle_t handle;
  std::string bytes;
  if (!reader.read(process) || !reader.read(address) ||
      !llvm::tryGetFromHex(reader.next(), bytes) || bytes.size() != sizeof(handle.reserved))
    return badInput("expected a CUDA IPC handle from rank {}, got '{}'", peer, text.str());
  const bool isOwnProcess = process == getpid();
  void *base = reinterpret_cast<void *>(address);
  if (isOwnProcess)
    return openOwn(base);
  std::memcpy(handle.reserved, bytes.data(), sizeof(handle.reserved));
  BRAID_CUDA_RETURN_IF_ERROR(cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess));
  mapped_.insert(base);
  return base;
}

Result<void *> IpcMemory::openOwn(void *base) {
  cudaPointerAttributes attributes;
  BRAID_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, base));
  int device = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  if (attributes.device == device)
    return base;
  cudaError_t code = cudaDeviceEnablePeerAccess(attributes.device, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError(); // clears the error
  else if (code != cudaSuccess)
    return cudaFailure(code, "cudaDeviceEnablePeerAccess");
  return base;
}

} // namespace

std::unique_ptr<SymmetricMemory> makeIpcMemory() { return std::make_unique<IpcMemory>(); }

} // namespace braid
