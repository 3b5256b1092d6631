//===- backends/cuda/cuda_memory.cpp - memory of a rank and of its peers ----------------------===//

#include "backends/cuda/cuda_memory.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace braid {
namespace {

constexpr size_t kHostRegion = size_t(64) << 10; // enough for the flags of several programs
// The prefix of handles for host memory. The region's size and the group's handle follow.
constexpr llvm::StringRef kFlags = "flags";

size_t roundUp(int64_t bytes, size_t granularity) {
  size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  return (size + granularity - 1) / granularity * granularity;
}

Status checkBytes(int64_t rank, int64_t bytes) {
  constexpr int64_t kLimit = int64_t(1) << 47; // the address space of a process
  if (bytes < 0 || bytes > kLimit)
    return unsupported("rank {} cannot allocate {} bytes", rank, bytes);
  return Status::ok();
}

/// Maps host memory into the GPU's address space, at the same address as on the host.
Status registerWithGpu(void *base, size_t bytes) {
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaHostRegister(base, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  void *onDevice = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaHostGetDevicePointer(&onDevice, base, 0));
  if (onDevice == base)
    return Status::ok();
  cudaHostUnregister(base);
  return unsupported("the GPU cannot access registered host memory at its host address");
}

} // namespace

CudaMemory::CudaMemory(ProcessGroup &group) : group_(group) {
  of(MemoryFrom::Ipc).provider = makeIpcMemory();
}

CudaMemory::~CudaMemory() {
  closePeers();
  if (isAbandoned_)
    return;
  for (const BlockPool *pool : {&flags_, &reports_})
    pool->forEachRegion([](const BlockPool::Memory &memory) {
      cudaHostUnregister(memory.address); // the group owns the memory
    });
  for (const Provided &each : provided_)
    each.pool.forEachRegion(
        [&](const BlockPool::Memory &memory) { each.provider->free(memory.address); });
  for (const auto &[base, bytes] : private_)
    cudaFree(base);
}

// -- Allocating. --

Result<void *> CudaMemory::allocate(ArenaKind kind, int64_t bytes) {
  BRAID_TRY(checkBytes(group_.rank(), bytes));
  if (kind == ArenaKind::Private)
    return allocatePrivate(roundUp(bytes, kAlignment));
  if (kind == ArenaKind::Flags)
    return allocateOnHost(flags_, bytes);
  return allocateFrom(MemoryFrom::Ipc, bytes);
}

Result<void *> CudaMemory::allocateFrom(MemoryFrom from, int64_t bytes) {
  BRAID_TRY(checkBytes(group_.rank(), bytes));
  Provided &memory = of(from);
  if (!memory.provider) {
    Result<std::unique_ptr<SymmetricMemory>> vmm = makeVmmMemory(group_);
    if (!vmm)
      return vmm.status().annotated(fmt::format("rank {}", group_.rank()));
    memory.provider = std::move(*vmm);
  }
  const size_t size = roundUp(bytes, kAlignment);
  void *base = memory.pool.allocate(size);
  if (!base) {
    const size_t region = roundUp(bytes, memory.provider->granularity());
    void *added = BRAID_TRY(memory.provider->allocate(region));
    base = memory.pool.allocateIn(memory.pool.add(added, region), size);
  }
  return zeroed(base, size);
}

/// Zeroes the memory, so that no program or peer sees another program's data.
Result<void *> CudaMemory::zeroed(void *base, size_t bytes) const {
  BRAID_CUDA_RETURN_IF_ERROR(cudaMemset(base, 0, bytes));
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize());
  return base;
}

Result<void *> CudaMemory::allocatePrivate(size_t bytes) {
  void *base = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaMalloc(&base, bytes));
  private_[base] = bytes;
  privateBytes_ += bytes;
  return zeroed(base, bytes);
}

/// Registers entire regions with the GPU, because many programs share a region.
Result<void *> CudaMemory::allocateOnHost(BlockPool &pool, int64_t bytes) {
  std::lock_guard lock(mutex_);
  const size_t size = roundUp(bytes, kAlignment);
  void *base = pool.allocate(size);
  if (!base) {
    const size_t region = roundUp(bytes, kHostRegion);
    void *memory = BRAID_TRY(group_.allocateSymmetric(static_cast<int64_t>(region)));
    BRAID_TRY(registerWithGpu(memory, region));
    base = pool.allocateIn(pool.add(memory, region), size);
  }
  std::memset(base, 0, size);
  return base;
}

void CudaMemory::release(void *base) {
  if (private_.count(base) != 0)
    return releasedPrivate_.push_back(base);
  std::lock_guard lock(mutex_);
  bool isFound = flags_.release(base) || reports_.release(base);
  for (Provided &each : provided_)
    isFound = isFound || each.pool.release(base);
}

/// fillFlags() may still write to released flags, which is harmless because nothing is recycled
/// after an abort. Private device memory is freed immediately, because no peer maps it. The lock is
/// not held during cudaFree(), which may block until fillFlags() ends the GPU's waits.
void CudaMemory::recycle() {
  {
    std::lock_guard lock(mutex_);
    flags_.recycle();
    reports_.recycle();
  }
  for (Provided &each : provided_)
    each.pool.recycle();
  for (void *base : std::exchange(releasedPrivate_, {}))
    if (const auto found = private_.find(base); found != private_.end()) {
      privateBytes_ -= found->second;
      private_.erase(found);
      cudaFree(base);
    }
}

int64_t CudaMemory::heldBytes() const {
  size_t bytes = privateBytes_ + flags_.regionBytes() + reports_.regionBytes();
  for (const Provided &each : provided_)
    bytes += each.pool.regionBytes();
  return static_cast<int64_t>(bytes);
}

Result<void *> CudaMemory::allocateReports(int64_t bytes) {
  BRAID_TRY(checkBytes(group_.rank(), bytes));
  return allocateOnHost(reports_, bytes);
}

// -- Peers. A handle consists of the kind of memory, the owner, the region, the offset in it, and
// -- the provider's handle for the region: "ipc:1:0:4096:...".

Result<std::string> CudaMemory::exportMemory(void *base) {
  auto text = [&](llvm::StringRef kind, const BlockPool::Block &block, const std::string &inner) {
    return fmt::format("{}:{}:{}:{}:{}", kind.str(), group_.rank(), block.region, block.offset,
                       inner);
  };
  if (const auto block = flags_.find(base)) {
    const BlockPool::Memory region = flags_.region(block->region);
    return text(kFlags, *block,
                fmt::format("{}:{}", region.bytes, BRAID_TRY(group_.exportMemory(region.address))));
  }
  for (const Provided &each : provided_)
    if (const auto block = each.pool.find(base))
      return text(each.kind, *block,
                  BRAID_TRY(each.provider->exportMemory(each.pool.region(block->region).address)));
  return badInput("only symmetric allocations and flags can be exported");
}

Result<void *> CudaMemory::open(int64_t peer, const std::string &handle) {
  HandleReader reader(handle);
  const llvm::StringRef kind = reader.next();
  Place place;
  if (!reader.read(place.rank) || place.rank != peer || !reader.read(place.region) ||
      !reader.read(place.offset))
    return badInput("expected a handle from rank {}, got '{}'", peer, handle);
  Opened &region = opened_[{kind.str(), peer, place.region}];
  if (!region.base) {
    Result<Opened> opened = openRegion(kind, peer, reader.rest());
    if (!opened) {
      opened_.erase({kind.str(), peer, place.region});
      return opened.status();
    }
    region = *opened;
  }
  return static_cast<char *>(region.base) + place.offset;
}

Result<CudaMemory::Opened> CudaMemory::openRegion(llvm::StringRef kind, int64_t peer,
                                                  llvm::StringRef handle) {
  for (const Provided &each : provided_)
    if (kind == each.kind && each.provider)
      return Opened{BRAID_TRY(each.provider->open(peer, handle)), each.provider.get()};
  if (kind != kFlags)
    return badInput("the handle is for memory of kind '{}', which this rank does not use",
                    kind.str());
  HandleReader reader(handle);
  size_t bytes = 0;
  if (!reader.read(bytes))
    return badInput("expected a size in bytes, got '{}'", handle.str());
  void *base = BRAID_TRY(group_.open(peer, reader.rest().str()));
  const bool isOurs = peer == group_.rank(); // already registered
  if (!isOurs)
    BRAID_TRY(registerWithGpu(base, bytes));
  return Opened{base, nullptr, !isOurs};
}

/// Returns the kinds of memory and the region numbers, such as "ipc:3 vmm:0 ".
std::string CudaMemory::unusedMemory(bool isAll) {
  std::string text;
  for (Provided &each : provided_) {
    each.named.clear();
    std::set<uint32_t> unused;
    for (uint32_t region : each.pool.unusedRegions()) {
      unused.insert(region);
      if (!isAll && each.wereUnused.count(region) == 0)
        continue;
      each.named.push_back(region);
      text += fmt::format("{}:{} ", each.kind.str(), region);
    }
    each.wereUnused = std::move(unused);
  }
  return text;
}

void CudaMemory::closeUnused(int64_t peer, llvm::StringRef unused) {
  for (; !unused.empty(); unused = unused.ltrim()) {
    const auto [word, rest] = unused.split(' ');
    unused = rest;
    HandleReader reader(word);
    const llvm::StringRef kind = reader.next();
    uint32_t number = 0;
    if (!reader.read(number))
      continue;
    const auto found = opened_.find({kind.str(), peer, number});
    if (found == opened_.end())
      continue;
    close(found->second);
    opened_.erase(found);
  }
}

void CudaMemory::freeUnused() {
  for (Provided &each : provided_)
    for (uint32_t number : std::exchange(each.named, {})) {
      void *base = each.pool.region(number).address;
      each.pool.remove(number);
      each.wereUnused.erase(number);
      each.provider->free(base);
    }
}

void CudaMemory::close(const Opened &opened) {
  if (opened.provider)
    opened.provider->close(opened.base);
  else if (opened.isRegistered)
    cudaHostUnregister(opened.base);
}

void CudaMemory::closePeers() {
  for (const auto &[whose, region] : opened_)
    close(region);
  opened_.clear();
}

void CudaMemory::abandon() {
  std::lock_guard lock(mutex_);
  opened_.clear();
  isAbandoned_ = true;
}

void CudaMemory::fillFlags(uint32_t value) {
  std::lock_guard lock(mutex_);
  flags_.forEachRegion([value](const BlockPool::Memory &memory) {
    for (size_t at = 0; at < memory.bytes; at += kFlagStride) {
      auto *flag = reinterpret_cast<uint32_t *>(static_cast<char *>(memory.address) + at);
      std::atomic_ref<uint32_t>(*flag).store(value, std::memory_order_relaxed);
    }
  });
}

} // namespace braid
