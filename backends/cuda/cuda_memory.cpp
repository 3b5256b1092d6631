//===- backends/cuda/cuda_memory.cpp - memory of one GPU's rank, and of its peers -------------===//

#include "backends/cuda/cuda_memory.h"

#include "backends/cuda/memory/nvshmem_memory.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace braid {
namespace {

constexpr size_t kPage = 4096;
constexpr llvm::StringRef kFlags = "flags"; // bytes and the group's handle
constexpr const char *kFound = "found";     // what a rank says that has memory of a provider

size_t roundUp(int64_t bytes, size_t granularity) {
  size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  return (size + granularity - 1) / granularity * granularity;
}

Status checkBytes(int64_t rank, int64_t bytes) {
  constexpr int64_t kLimit = int64_t(1) << 47; // of a process's addresses
  if (bytes < 0 || bytes > kLimit)
    return unsupported("rank {} cannot allocate {} bytes", rank, bytes);
  return Status::ok();
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

CudaMemory::CudaMemory(ProcessGroup &group, MakeOfMessages makeOfMessages)
    : group_(group), makeOfMessages_(std::move(makeOfMessages)) {
  providers_[static_cast<size_t>(MemoryFrom::Default)] = makeIpcMemory();
}

CudaMemory::~CudaMemory() {
  closePeers();
  for (const Arena &arena : arenas_)
    if (arena.kind == ArenaKind::Flags)
      cudaHostUnregister(arena.base); // the memory is the group's
    else if (arena.kind == ArenaKind::Private)
      cudaFree(arena.base);
}

// -- Providers. --

Result<std::unique_ptr<SymmetricMemory>> CudaMemory::make(MemoryFrom from, ControlPlane &control) {
  switch (from) {
  case MemoryFrom::Default:
  case MemoryFrom::Ipc:
    return makeIpcMemory();
  case MemoryFrom::Vmm:
    return makeVmmMemory(group_);
  case MemoryFrom::Nvshmem:
    return makeNvshmemMemory(group_, control);
  case MemoryFrom::Nccl:
  case MemoryFrom::NcclRegistered:
    return makeOfMessages_(from, control);
  }
  llvm_unreachable("covered above");
}

/// All ranks have memory of that kind, or none goes on: the others would wait for one that has not.
Result<SymmetricMemory *> CudaMemory::provider(MemoryFrom from, ControlPlane &control) {
  std::unique_ptr<SymmetricMemory> &known = providers_[static_cast<size_t>(from)];
  if (known)
    return known.get();
  Result<std::unique_ptr<SymmetricMemory>> made = make(from, control);
  const std::vector<std::string> ranks =
      BRAID_TRY(control.allGather(made ? kFound : made.status().message()));
  if (!made)
    return made.status();
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank] != kFound)
      return unsupported("rank {}: {}", rank, ranks[rank]);
  known = std::move(*made);
  return known.get();
}

// -- Allocating. --

/// Of IPC, which asks no other rank for anything.
Result<void *> CudaMemory::allocate(ArenaKind kind, int64_t bytes) {
  BRAID_TRY(checkBytes(group_.rank(), bytes));
  if (kind == ArenaKind::Private)
    return allocatePrivate(roundUp(bytes, 256));
  if (kind == ArenaKind::Flags)
    return allocateFlags(roundUp(bytes, kPage), /*holdsReports=*/false);
  return allocateSymmetric(MemoryFrom::Default, roundUp(bytes, ipc().granularity()));
}

Result<std::vector<void *>> CudaMemory::allocateFrom(MemoryFrom from, llvm::ArrayRef<int64_t> bytes,
                                                     ControlPlane &control) {
  const SymmetricMemory *memory = BRAID_TRY(provider(from, control));
  std::vector<int64_t> sizes = bytes.vec();
  for (int64_t &size : sizes) {
    BRAID_TRY(checkBytes(group_.rank(), size));
    size = static_cast<int64_t>(roundUp(size, memory->granularity()));
  }
  if (memory->isCollective())
    return allocateTogether(from, std::move(sizes), control);
  std::vector<void *> bases;
  for (int64_t size : sizes)
    bases.push_back(BRAID_TRY(allocateSymmetric(from, static_cast<size_t>(size))));
  return bases;
}

/// All ranks use again what they allocated together, or all allocate: one may still hold what
/// another one has given back, and have other memory of that size.
Result<std::vector<void *>>
CudaMemory::allocateTogether(MemoryFrom from, std::vector<int64_t> bytes, ControlPlane &control) {
  BRAID_TRY(agreeOnSizes(from, bytes, control));
  std::vector<void *> bases;
  for (int64_t size : bytes)
    bases.push_back(reuse({ArenaKind::Symmetric, nullptr, static_cast<size_t>(size), false, from}));
  const bool hasAll = !llvm::is_contained(bases, nullptr);
  std::string mine;
  for (void *base : bases)
    mine += fmt::format("{} ", hasAll ? togetherNumbers_.at(base) : -1);
  const std::vector<std::string> ranks = BRAID_TRY(control.allGather(mine));
  if (hasAll && llvm::all_of(ranks, [&](const std::string &other) { return other == mine; })) {
    for (size_t i = 0; i < bases.size(); ++i)
      BRAID_TRY(zeroed(bases[i], static_cast<size_t>(bytes[i])));
    return bases;
  }
  for (size_t i = 0; i < bases.size(); ++i) {
    setUse(bases[i], ArenaUse::Free);
    bases[i] = BRAID_TRY(allocateNew(from, static_cast<size_t>(bytes[i])));
    togetherNumbers_[bases[i]] = togetherCount_++;
  }
  return bases;
}

/// Sizes become those of the rank that wants most.
Status CudaMemory::agreeOnSizes(MemoryFrom from, std::vector<int64_t> &bytes,
                                ControlPlane &control) {
  const std::string mine = fmt::format("{}:{}", name(from).str(), fmt::join(bytes, ":"));
  for (const std::string &text : BRAID_TRY(control.allGather(mine))) {
    HandleReader reader(text);
    bool isRead = reader.next() == name(from);
    for (int64_t &size : bytes) {
      int64_t other = 0;
      isRead = isRead && reader.read(other);
      size = std::max(size, other);
    }
    if (!isRead)
      return badInput("expected all ranks to allocate memory '{}', got '{}' from one",
                      name(from).str(), text);
  }
  return Status::ok();
}

/// What peers map must not show what another program left there.
Result<void *> CudaMemory::zeroed(void *base, size_t bytes) const {
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(base, 0, bytes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  return base;
}

Result<void *> CudaMemory::allocatePrivate(size_t bytes) {
  void *base = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&base, bytes));
  {
    std::lock_guard lock(mutex_);
    arenas_.push_back({ArenaKind::Private, base, bytes});
  }
  return zeroed(base, bytes);
}

Result<void *> CudaMemory::allocateSymmetric(MemoryFrom from, size_t bytes) {
  if (void *known = reuse({ArenaKind::Symmetric, nullptr, bytes, false, from}))
    return zeroed(known, bytes);
  return allocateNew(from, bytes);
}

Result<void *> CudaMemory::allocateNew(MemoryFrom from, size_t bytes) {
  void *base = BRAID_TRY(providers_[static_cast<size_t>(from)]->allocate(bytes));
  {
    std::lock_guard lock(mutex_);
    arenas_.push_back({ArenaKind::Symmetric, base, bytes, false, from});
  }
  return zeroed(base, bytes);
}

/// Memory like `wanted` that was recycled, with what is still in it. Null: there is none.
void *CudaMemory::reuse(const Arena &wanted) {
  std::lock_guard lock(mutex_);
  Arena *free = findFree(arenas_, wanted.bytes, [&](const Arena &arena) {
    return arena.kind == wanted.kind && arena.holdsReports == wanted.holdsReports &&
           arena.from == wanted.from;
  });
  if (!free)
    return nullptr;
  free->use = ArenaUse::Used;
  return free->base;
}

void CudaMemory::release(void *base) { setUse(base, ArenaUse::Released); }

void CudaMemory::setUse(const void *base, ArenaUse use) {
  std::lock_guard lock(mutex_);
  for (Arena &arena : arenas_)
    if (arena.base == base)
      arena.use = use;
}

/// Released flags are still filled by fillFlags(), which does no harm: nothing is recycled after an
/// abort. Device memory of our own is freed, as nobody has to be told.
/// That waits for the GPU, which may wait for what fillFlags() ends, so it is not done under lock.
void CudaMemory::recycle() {
  std::vector<void *> unused;
  {
    std::lock_guard lock(mutex_);
    for (Arena &arena : arenas_) {
      if (arena.use != ArenaUse::Released)
        continue;
      arena.use = ArenaUse::Free;
      if (arena.kind == ArenaKind::Private)
        unused.push_back(arena.base);
    }
    llvm::erase_if(arenas_, [](const Arena &arena) {
      return arena.kind == ArenaKind::Private && arena.use == ArenaUse::Free;
    });
  }
  for (void *base : unused)
    cudaFree(base);
}

Result<void *> CudaMemory::allocateFlags(size_t bytes, bool holdsReports) {
  Arena wanted{ArenaKind::Flags, nullptr, bytes, holdsReports};
  if (void *known = reuse(wanted)) {
    std::memset(known, 0, bytes);
    return known;
  }
  wanted.base = BRAID_TRY(group_.allocateSymmetric(group_.rank(), static_cast<int64_t>(bytes)));
  BRAID_TRY(registerWithGpu(wanted.base, bytes));
  std::lock_guard lock(mutex_);
  arenas_.push_back(wanted);
  return wanted.base;
}

Result<void *> CudaMemory::allocateReports(int64_t bytes) {
  return allocateFlags(roundUp(bytes, kPage), /*holdsReports=*/true);
}

// -- Peers. A handle is what it is of, the rank that has it, and what its provider wrote. --

Result<std::string> CudaMemory::exportMemory(void *base) {
  auto arena = llvm::find_if(arenas_, [&](const Arena &each) { return each.base == base; });
  if (arena == arenas_.end() || arena->kind == ArenaKind::Private)
    return badInput("expected a symmetric allocation or flags to export");
  const bool areFlags = arena->kind == ArenaKind::Flags;
  const std::string inner =
      areFlags
          ? fmt::format("{}:{}", arena->bytes, BRAID_TRY(group_.exportMemory(group_.rank(), base)))
          : BRAID_TRY(providers_[static_cast<size_t>(arena->from)]->exportMemory(base));
  return fmt::format("{}:{}:{}", (areFlags ? kFlags : name(arena->from)).str(), group_.rank(),
                     inner);
}

Result<void *> CudaMemory::open(int64_t peer, const std::string &handle) {
  HandleReader reader(handle);
  const llvm::StringRef kind = reader.next();
  int64_t exporter = -1;
  if (!reader.read(exporter) || exporter != peer)
    return badInput("expected a handle of rank {}, got '{}'", peer, handle);
  if (kind == kFlags)
    return openFlags(peer, reader.rest().str());
  for (size_t from = 0; from < providers_.size(); ++from)
    if (kind == name(static_cast<MemoryFrom>(from)) && providers_[from])
      return providers_[from]->open(peer, reader.rest());
  return badInput("expected a handle of memory that this rank has, too, got '{}'", handle);
}

Result<void *> CudaMemory::openFlags(int64_t peer, const std::string &text) {
  for (const Flags &flags : flags_)
    if (flags.peer == peer && flags.handle == text)
      return flags.base;
  HandleReader reader(text);
  size_t bytes = 0;
  if (!reader.read(bytes))
    return badInput("expected a number of bytes, got '{}'", text);
  void *base = BRAID_TRY(group_.open(peer, reader.rest().str()));
  const bool isOurs = peer == group_.rank(); // and registered
  if (!isOurs)
    BRAID_TRY(registerWithGpu(base, bytes));
  flags_.push_back({peer, text, base, !isOurs});
  return base;
}

void CudaMemory::closePeers() {
  for (const Flags &flags : flags_)
    if (flags.isRegistered)
      cudaHostUnregister(flags.base);
  flags_.clear();
  for (const std::unique_ptr<SymmetricMemory> &memory : providers_)
    if (memory)
      memory->closePeers();
}

void CudaMemory::abandon() {
  std::lock_guard lock(mutex_);
  flags_.clear();
  arenas_.clear();
  for (std::unique_ptr<SymmetricMemory> &memory : providers_)
    (void)memory.release(); // with all that it holds
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
