//===- backends/nccl/nccl_memory.cpp - memory allocated by NCCL and its registrations ---------===//

#include "backends/nccl/nccl_memory.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid::nccl {

//===- Allocations and registrations --------------------------------------------------------===//

static Status tooOld(const Library &library, MemoryFrom from, const char *least) {
  return unsupported("memory '{}': expected NCCL {} or later, got {} from {}; "
                     "BRAID_NCCL_LIBRARY may name the file",
                     name(from), least, versionText(library.version), library.file);
}

Result<std::unique_ptr<OwnMemory>> OwnMemory::create(const Library &library, MemoryFrom from) {
  const bool hasWindows = library.call.CommWindowRegister && library.call.CommWindowDeregister;
  if (from == MemoryFrom::Nccl && !hasWindows)
    return tooOld(library, from, "2.27.0");
  return std::unique_ptr<OwnMemory>(new OwnMemory(library, from));
}

OwnMemory::~OwnMemory() {
  for (const Allocation &memory : allocations_)
    (void)library_.call.MemFree(memory.base);
}

Result<void *> OwnMemory::allocate(size_t bytes) {
  void *base = nullptr;
  if (const Code got = library_.call.MemAlloc(&base, bytes); got != Code::Success)
    return unsupported("memory '{}': {} from ncclMemAlloc of {} bytes", name(from_),
                       library_.call.GetErrorString(got), bytes);
  allocations_.push_back({base, bytes, {}});
  return base;
}

Status OwnMemory::registerWith(const Communicator &communicator) {
  for (Allocation &memory : allocations_) {
    Handle &handle = memory.handles[&communicator];
    if (handle.isThere())
      continue;
    BRAID_TRY(registerIt(communicator, memory, handle));
    if (!handle.isThere())
      return unsupported("memory '{}': NCCL {} registers {} here", name(from_),
                         versionText(library_.version),
                         from_ == MemoryFrom::Nccl ? "no windows" : "nothing");
  }
  return Status::ok();
}

/// On a non-blocking communicator, the library reports success at once and registers the window in
/// the background; it writes the window's address when it has finished.
Status OwnMemory::registerIt(const Communicator &communicator, const Allocation &memory,
                             Handle &handle) {
  if (from_ != MemoryFrom::Nccl)
    return communicator.finish(library_.call.CommRegister(communicator.get(), memory.base,
                                                          memory.bytes, &handle.registration),
                               "ncclCommRegister");
  const Code code = library_.call.CommWindowRegister(communicator.get(), memory.base, memory.bytes,
                                                     &handle.window, kSymmetricWindow);
  return communicator.finish(code == Code::Success ? Code::InProgress : code,
                             "ncclCommWindowRegister");
}

Status OwnMemory::deregisterIt(const Communicator &communicator, const Handle &handle) {
  Comm *comm = communicator.get();
  if (from_ != MemoryFrom::Nccl)
    return communicator.finish(library_.call.CommDeregister(comm, handle.registration),
                               "ncclCommDeregister");
  return communicator.finish(library_.call.CommWindowDeregister(comm, handle.window),
                             "ncclCommWindowDeregister");
}

void OwnMemory::deregister() {
  for (Allocation &memory : allocations_)
    for (const auto &[communicator, handle] : std::exchange(memory.handles, {}))
      if (handle.isThere())
        (void)deregisterIt(*communicator, handle);
}

size_t OwnMemory::numberOf(const void *base) const {
  const auto found =
      llvm::find_if(allocations_, [base](const Allocation &memory) { return memory.base == base; });
  return static_cast<size_t>(found - allocations_.begin());
}

Window *OwnMemory::window(size_t number, const Communicator &communicator) const {
  const auto &handles = allocations_[number].handles;
  const auto found = handles.find(&communicator);
  return found == handles.end() ? nullptr : found->second.window;
}

//===- Memory for peers and for messages ----------------------------------------------------===//

namespace {

class NcclMemory final : public SymmetricMemory {
public:
  NcclMemory(const Library &library, const Communicator &communicator, Calls calls, MemoryFrom from,
             std::shared_ptr<OwnMemory> memory)
      : library_(library), communicator_(communicator), calls_(calls), from_(from),
        memory_(std::move(memory)) {}
  ~NcclMemory() override { closePeers(); }
  bool isCollective() const override { return from_ == MemoryFrom::Nccl; }
  size_t granularity() const override { return size_t(2) << 20; } // the unit that NCCL maps
  Result<void *> allocate(size_t bytes) override;
  Result<std::string> exportMemory(void *base) override;
  Result<void *> open(int64_t peer, llvm::StringRef handle) override;
  void closePeers() override;

private:
  const Library &library_;
  const Communicator &communicator_;
  const Calls calls_;
  const MemoryFrom from_;
  const std::shared_ptr<OwnMemory> memory_;
};

Result<void *> NcclMemory::allocate(size_t bytes) {
  std::lock_guard lock(calls_.exclusive);
  void *base = BRAID_TRY(memory_->allocate(bytes));
  if (isCollective())
    BRAID_TRY(memory_->registerWith(communicator_));
  return base;
}

/// Older libraries cannot return the address of peers' memory to the host.
Result<std::string> NcclMemory::exportMemory(void *base) {
  if (from_ != MemoryFrom::Nccl)
    return unsupported("memory '{}': expected messages, for peers do not reach it", name(from_));
  if (!library_.call.GetPeerDevicePointer)
    return tooOld(library_, from_, "2.29.0");
  return std::to_string(memory_->numberOf(base));
}

Result<void *> NcclMemory::open(int64_t peer, llvm::StringRef handle) {
  size_t number = 0;
  if (handle.getAsInteger(10, number) || number >= memory_->count())
    return badInput("expected an allocation of memory 'nccl' of rank {}, got '{}'", peer,
                    handle.str());
  std::lock_guard lock(calls_.exclusive);
  if (calls_.isAborted) // the windows no longer exist
    return peerFailed("memory 'nccl': the job has failed");
  void *base = nullptr;
  const Code code = library_.call.GetPeerDevicePointer(memory_->window(number, communicator_), 0,
                                                       static_cast<int>(peer), &base);
  if (code != Code::Success || !base)
    return unsupported("memory 'nccl': NCCL {} has no address for the memory of rank {}: {}",
                       versionText(library_.version), peer, library_.call.GetErrorString(code));
  return base;
}

/// Closes the mappings of peers' memory. An aborted communicator has already closed them.
void NcclMemory::closePeers() {
  if (calls_.isAborted)
    return;
  std::lock_guard lock(calls_.exclusive);
  memory_->deregister();
}

} // namespace

std::unique_ptr<SymmetricMemory> makeMemory(const Library &library,
                                            const Communicator &communicator, Calls calls,
                                            MemoryFrom from, std::shared_ptr<OwnMemory> memory) {
  return std::make_unique<NcclMemory>(library, communicator, calls, from, std::move(memory));
}

} // namespace braid::nccl
