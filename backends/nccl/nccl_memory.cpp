//===- backends/nccl/nccl_memory.cpp - memory of NCCL that all ranks reach --------------------===//

#include "backends/nccl/nccl_memory.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid::nccl {
namespace {

class NcclMemory final : public SymmetricMemory {
public:
  NcclMemory(const Library &library, const Communicator &communicator, Calls calls)
      : library_(library), communicator_(communicator), calls_(calls) {}
  ~NcclMemory() override;
  bool isCollective() const override { return true; }
  size_t granularity() const override { return size_t(2) << 20; } // what it maps
  Result<void *> allocate(size_t bytes) override;
  Result<std::string> exportMemory(void *base) override;
  Result<void *> open(int64_t peer, llvm::StringRef handle) override;
  void closePeers() override;

private:
  struct Registered {
    void *base = nullptr;
    Window *window = nullptr;
  };

  const Library &library_;
  const Communicator &communicator_;
  const Calls calls_;
  std::vector<Registered> own_; ///< in the same order on all ranks
};

NcclMemory::~NcclMemory() {
  closePeers();
  for (const Registered &memory : own_)
    (void)library_.call.MemFree(memory.base);
}

/// On a communicator that does not block the library says at once that all went well, and goes on
/// in the background; it writes the window's address when that is over.
Result<void *> NcclMemory::allocate(size_t bytes) {
  std::lock_guard lock(calls_.exclusive);
  Registered &memory = own_.emplace_back();
  if (const Code got = library_.call.MemAlloc(&memory.base, bytes); got != Code::Success)
    return unsupported("memory 'nccl': {} from ncclMemAlloc of {} bytes",
                       library_.call.GetErrorString(got), bytes);
  const Code code = library_.call.CommWindowRegister(communicator_.get(), memory.base, bytes,
                                                     &memory.window, kSymmetricWindow);
  BRAID_TRY(communicator_.finish(code == Code::Success ? Code::InProgress : code,
                                 "ncclCommWindowRegister"));
  if (!memory.window)
    return unsupported("memory 'nccl': NCCL {} registers no windows here",
                       versionText(library_.version));
  return memory.base;
}

Result<std::string> NcclMemory::exportMemory(void *base) {
  const auto found =
      llvm::find_if(own_, [base](const Registered &each) { return each.base == base; });
  return std::to_string(found - own_.begin());
}

Result<void *> NcclMemory::open(int64_t peer, llvm::StringRef handle) {
  size_t number = 0;
  if (handle.getAsInteger(10, number) || number >= own_.size())
    return badInput("expected an allocation of memory 'nccl' of rank {}, got '{}'", peer,
                    handle.str());
  std::lock_guard lock(calls_.exclusive);
  if (calls_.isAborted) // the windows have gone
    return peerFailed("memory 'nccl': the job has failed");
  void *base = nullptr;
  const Code code =
      library_.call.GetPeerDevicePointer(own_[number].window, 0, static_cast<int>(peer), &base);
  if (code != Code::Success || !base)
    return unsupported("memory 'nccl': NCCL {} has no address for the memory of rank {}: {}",
                       versionText(library_.version), peer, library_.call.GetErrorString(code));
  return base;
}

/// What peers have mapped of each other. An aborted communicator has given it back.
void NcclMemory::closePeers() {
  for (Registered &memory : own_)
    if (Window *window = std::exchange(memory.window, nullptr); window && !calls_.isAborted) {
      std::lock_guard lock(calls_.exclusive);
      (void)communicator_.finish(library_.call.CommWindowDeregister(communicator_.get(), window),
                                 "ncclCommWindowDeregister");
    }
}

} // namespace

Result<std::unique_ptr<SymmetricMemory>> makeMemory(const Library &library,
                                                    const Communicator &communicator, Calls calls) {
  if (!library.call.GetPeerDevicePointer)
    return unsupported("memory 'nccl': expected NCCL 2.29.0 or later, got {} from {}; "
                       "BRAID_NCCL_LIBRARY may name the file",
                       versionText(library.version), library.file);
  return std::unique_ptr<SymmetricMemory>(new NcclMemory(library, communicator, calls));
}

} // namespace braid::nccl
