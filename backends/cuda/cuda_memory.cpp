//===- backends/cuda/cuda_memory.cpp - memory of one GPU's rank, and of its peers -------------===//

#include "backends/cuda/cuda_memory.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <unistd.h>

namespace braid {
namespace {

constexpr size_t kArenaGranularity = size_t(2) << 20; // what CUDA IPC maps
constexpr size_t kPage = 4096;
constexpr const char *kIpcPrefix = "cuda-ipc:";
constexpr const char *kFlagsPrefix = "flags:"; // bytes, a colon, the group's handle

size_t roundUp(int64_t bytes, size_t granularity) {
  size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  return (size + granularity - 1) / granularity * granularity;
}

/// Lets the GPU reach host memory, at the address that the host has for it.
Status registerWithGpu(void *base, size_t bytes) {
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaHostRegister(base, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  void *onDevice = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaHostGetDevicePointer(&onDevice, base, 0));
  if (onDevice == base)
    return Status::ok();
  cudaHostUnregister(base);
  return unsupported("expected a GPU that reaches registered host memory at the host's addresses");
}

} // namespace

CudaMemory::~CudaMemory() {
  closePeers();
  for (const Arena &arena : arenas_)
    if (arena.kind == ArenaKind::Flags)
      cudaHostUnregister(arena.base); // the memory is the group's
    else
      cudaFree(arena.base);
}

Result<void *> CudaMemory::allocate(ArenaKind kind, int64_t bytes) {
  constexpr int64_t kLimit = int64_t(1) << 47; // of a process's addresses
  if (bytes < 0 || bytes > kLimit)
    return unsupported("rank {} cannot allocate {} bytes", group_.rank(), bytes);
  if (kind != ArenaKind::Flags)
    return allocateOnDevice(kind,
                            roundUp(bytes, kind == ArenaKind::Symmetric ? kArenaGranularity : 256));
  return allocateFlags(roundUp(bytes, kPage), /*holdsReports=*/false);
}

Result<void *> CudaMemory::allocateOnDevice(ArenaKind kind, size_t bytes) {
  void *base = reuse(kind, bytes);
  if (!base) {
    BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&base, bytes));
    std::lock_guard lock(mutex_);
    arenas_.push_back({kind, base, bytes, false});
  }
  // What peers map must not show what another program left there.
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(base, 0, bytes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  return base;
}

void *CudaMemory::reuse(ArenaKind kind, size_t bytes, bool holdsReports) {
  std::lock_guard lock(mutex_);
  Arena *free = findFree(arenas_, bytes, [&](const Arena &arena) {
    return arena.kind == kind && arena.holdsReports == holdsReports;
  });
  if (!free)
    return nullptr;
  free->use = ArenaUse::Used;
  return free->base;
}

void CudaMemory::release(void *base) {
  std::lock_guard lock(mutex_);
  for (Arena &arena : arenas_)
    if (arena.base == base)
      arena.use = ArenaUse::Released;
}

/// Released flags are still filled by fillFlags(), which does no harm: nothing is recycled after an
/// abort. Device memory of our own is freed, as nobody has to be told.
void CudaMemory::recycle() {
  std::lock_guard lock(mutex_);
  for (Arena &arena : arenas_) {
    if (arena.use != ArenaUse::Released)
      continue;
    arena.use = ArenaUse::Free;
    if (arena.kind == ArenaKind::Private)
      cudaFree(arena.base);
  }
  llvm::erase_if(arenas_, [](const Arena &arena) {
    return arena.kind == ArenaKind::Private && arena.use == ArenaUse::Free;
  });
}

Result<void *> CudaMemory::allocateFlags(size_t bytes, bool holdsReports) {
  if (void *known = reuse(ArenaKind::Flags, bytes, holdsReports)) {
    std::memset(known, 0, bytes);
    return known;
  }
  void *base = BRAID_TRY(group_.allocateSymmetric(group_.rank(), static_cast<int64_t>(bytes)));
  BRAID_TRY(registerWithGpu(base, bytes));
  std::lock_guard lock(mutex_);
  arenas_.push_back({ArenaKind::Flags, base, bytes, holdsReports});
  return base;
}

Result<void *> CudaMemory::allocateReports(int64_t bytes) {
  return allocateFlags(roundUp(bytes, kPage), /*holdsReports=*/true);
}

Result<std::string> CudaMemory::exportMemory(void *base) {
  auto arena = llvm::find_if(arenas_, [&](const Arena &each) { return each.base == base; });
  if (arena == arenas_.end() || arena->kind == ArenaKind::Private)
    return badInput("expected a symmetric allocation or flags to export");
  if (arena->kind == ArenaKind::Flags) {
    std::string handle = BRAID_TRY(group_.exportMemory(group_.rank(), base));
    return fmt::format("{}{}:{}", kFlagsPrefix, arena->bytes, handle);
  }
  cudaIpcMemHandle_t handle;
  BRAID_CUDA_RETURN_IF_ERROR(cudaIpcGetMemHandle(&handle, base));
  return fmt::format("{}{}:{}:{}:{}", kIpcPrefix, group_.rank(), getpid(),
                     reinterpret_cast<uintptr_t>(base),
                     llvm::toHex(llvm::StringRef(handle.reserved, sizeof(handle.reserved))));
}

Result<void *> CudaMemory::open(int64_t peer, const std::string &handle) {
  for (const Opened &opened : opened_)
    if (opened.peer == peer && opened.handle == handle)
      return opened.base;
  llvm::StringRef text = handle;
  bool isFlags = text.consume_front(kFlagsPrefix);
  if (!isFlags && !text.consume_front(kIpcPrefix))
    return badInput("expected a handle of this backend, got '{}'", handle);
  Result<void *> base = isFlags ? openFlags(peer, text) : openDevice(peer, text);
  if (!base)
    return base;
  // rank:process:...
  bool isOwn = text.split(':').second.split(':').first == std::to_string(getpid());
  opened_.push_back({peer, handle, *base,
                     isFlags ? Kind::Flags
                     : isOwn ? Kind::OwnProcess
                             : Kind::Device});
  return base;
}

Result<void *> CudaMemory::openFlags(int64_t peer, llvm::StringRef text) {
  auto [size, handle] = text.split(':');
  size_t bytes = 0;
  if (size.getAsInteger(10, bytes))
    return badInput("expected a number of bytes, got '{}'", size.str());
  Result<void *> base = group_.open(peer, handle.str());
  if (!base || peer == group_.rank()) // our own are registered
    return base;
  BRAID_TRY(registerWithGpu(*base, bytes));
  return *base;
}

/// A process cannot open its own handles; there the address itself will do. Ranks share a process
/// in tests only.
Result<void *> CudaMemory::openDevice(int64_t peer, llvm::StringRef text) {
  auto [rank, rest] = text.split(':');
  auto [process, place] = rest.split(':');
  auto [address, hex] = place.split(':');
  int64_t exporter = -1;
  pid_t pid = 0;
  uintptr_t base = 0;
  cudaIpcMemHandle_t handle;
  std::string bytes;
  if (rank.getAsInteger(10, exporter) || exporter != peer || process.getAsInteger(10, pid) ||
      address.getAsInteger(10, base) || !llvm::tryGetFromHex(hex, bytes) ||
      bytes.size() != sizeof(handle.reserved))
    return badInput("expected a CUDA IPC handle of rank {}, got '{}'", peer, text.str());
  if (pid == getpid())
    return openOwn(reinterpret_cast<void *>(base));
  std::memcpy(handle.reserved, bytes.data(), sizeof(handle.reserved));
  void *opened = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  return opened;
}

Result<void *> CudaMemory::openOwn(void *base) {
  cudaPointerAttributes attributes;
  BRAID_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, base));
  int device = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  if (attributes.device == device)
    return base;
  cudaError_t code = cudaDeviceEnablePeerAccess(attributes.device, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError(); // taken note of
  else if (code != cudaSuccess)
    return cudaFailure(code, "cudaDeviceEnablePeerAccess");
  return base;
}

void CudaMemory::closePeers() {
  for (const Opened &opened : opened_)
    if (opened.kind == Kind::Flags)
      cudaHostUnregister(opened.base);
    else if (opened.kind == Kind::Device)
      cudaIpcCloseMemHandle(opened.base);
  opened_.clear();
}

void CudaMemory::abandon() {
  std::lock_guard lock(mutex_);
  opened_.clear();
  arenas_.clear();
}

void CudaMemory::fillFlags(uint32_t value) {
  std::lock_guard lock(mutex_);
  for (const Arena &arena : arenas_) {
    if (arena.kind != ArenaKind::Flags || arena.holdsReports)
      continue;
    for (size_t at = 0; at < arena.bytes; at += kFlagStride) {
      auto *flag = reinterpret_cast<uint32_t *>(static_cast<char *>(arena.base) + at);
      std::atomic_ref<uint32_t>(*flag).store(value, std::memory_order_relaxed);
    }
  }
}

} // namespace braid
