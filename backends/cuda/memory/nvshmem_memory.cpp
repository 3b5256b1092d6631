//===- backends/cuda/memory/nvshmem_memory.cpp - the heap of NVSHMEM --------------------------===//
//
// NVSHMEM's calls wait for all ranks, without a time limit, and nothing ends them. So each is made
// on a thread of its own: a job that fails leaves the thread behind, and NVSHMEM with it.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/memory/nvshmem_memory.h"

#include "backends/cuda/memory/nvshmem_library.h"
#include "backends/cuda/open_library.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

namespace braid {
namespace {

/// The user of NVSHMEM in this process: there is one NVSHMEM per process.
enum class Owner : uint8_t {
  Nobody,
  Job,
  Lost, ///< a job failed while it had it
};
std::atomic<Owner> owner{Owner::Nobody};

/// Ends when `work` has returned, when the job has failed, or after the group's timeout. Nothing
/// that `work` refers to may be a caller's.
template <class Value>
Result<Value> bounded(const ProcessGroup &group, const char *call, std::function<Value()> work) {
  int device = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  std::packaged_task<Value()> task([device, work = std::move(work)] {
    cudaSetDevice(device);
    return work();
  });
  std::future<Value> result = task.get_future();
  std::thread(std::move(task)).detach(); // one that does not come back goes with the process
  const auto giveUp = std::chrono::steady_clock::now() + group.timeout();
  while (result.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (!group.isAborted() && std::chrono::steady_clock::now() < giveUp)
      continue;
    owner = Owner::Lost;
    if (group.isAborted())
      return peerFailed("NVSHMEM: {} was given up, for the job has failed", call);
    return Status(StatusCode::TimedOut, fmt::format("NVSHMEM: {} is still waiting after {} ms",
                                                    call, group.timeout().count()));
  }
  return result.get();
}

/// Sets the environment that NVSHMEM reads when it starts: no multicast, no network transport, and
/// the loopback address for bootstrap, because all ranks are on one host.
Status setEnvironment() {
  constexpr const char *kNoMulticast = "NVSHMEM_DISABLE_NVLS";
  const char *asked = std::getenv(kNoMulticast);
  const bool isAskedFor =
      asked && llvm::StringSwitch<bool>(asked).Cases("0", "false", "no", true).Default(false);
  BRAID_TRY(keepMulticastOff("memory 'nvshmem'", kNoMulticast, "1", isAskedFor));
  setenv("NVSHMEM_REMOTE_TRANSPORT", "none", /*overwrite=*/0);
  setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", /*overwrite=*/0);
  return Status::ok();
}

class NvshmemMemory final : public SymmetricMemory {
public:
  NvshmemMemory(ProcessGroup &group, const nvshmem::Library &library)
      : group_(group), library_(library) {}
  ~NvshmemMemory() override { closePeers(); }
  bool isCollective() const override { return true; }
  size_t granularity() const override { return 4096; } // the heap's own is finer
  Result<void *> allocate(size_t bytes) override;
  Result<std::string> exportMemory(void *base) override;
  Result<void *> open(int64_t peer, llvm::StringRef handle) override;
  void closePeers() override;

private:
  ProcessGroup &group_;
  const nvshmem::Library &library_;
  std::vector<void *> own_; ///< in the same order on all ranks
  bool isOpen_ = true;
};

Result<void *> NvshmemMemory::allocate(size_t bytes) {
  const auto allocate = library_.nvshmem_malloc;
  void *base = BRAID_TRY(
      bounded<void *>(group_, "nvshmem_malloc", [allocate, bytes] { return allocate(bytes); }));
  if (!base)
    return unsupported("memory 'nvshmem': rank {} cannot allocate {} bytes", group_.rank(), bytes);
  own_.push_back(base);
  return base;
}

Result<std::string> NvshmemMemory::exportMemory(void *base) {
  return std::to_string(llvm::find(own_, base) - own_.begin());
}

/// The peer's allocation of that number has the place in its heap that ours has in ours.
Result<void *> NvshmemMemory::open(int64_t peer, llvm::StringRef handle) {
  size_t number = 0;
  if (handle.getAsInteger(10, number) || number >= own_.size())
    return badInput("expected an allocation of memory 'nvshmem' of rank {}, got '{}'", peer,
                    handle.str());
  if (void *base = library_.nvshmem_ptr(own_[number], static_cast<int>(peer)))
    return base;
  return unsupported("memory 'nvshmem': the GPU of rank {} cannot reach that of rank {}",
                     group_.rank(), peer);
}

/// Gives the heap back. Collective, so not after a failure: a rank that is gone would be waited
/// for.
void NvshmemMemory::closePeers() {
  if (!std::exchange(isOpen_, false))
    return;
  if (group_.isAborted() || owner != Owner::Job) {
    owner = Owner::Lost;
    return;
  }
  const auto finalize = library_.nvshmemx_hostlib_finalize;
  const Result<bool> ended = bounded<bool>(group_, "nvshmemx_hostlib_finalize", [finalize] {
    finalize();
    return true;
  });
  if (ended)
    owner = Owner::Nobody;
}

/// Takes NVSHMEM for this job, if it is to be had.
Status take(const nvshmem::Library &library) {
  Owner before = Owner::Nobody;
  if (library.nvshmemx_init_status() != nvshmem::kNotInitialized && owner == Owner::Nobody)
    return unsupported("memory 'nvshmem': this process uses NVSHMEM for something else");
  if (owner.compare_exchange_strong(before, Owner::Job))
    return Status::ok();
  return unsupported("memory 'nvshmem': {}",
                     before == Owner::Job
                         ? "another job of this process has it"
                         : "a job of this process failed while it had it, and it cannot be had "
                           "again before the process ends");
}

/// Undoes take(), so that the next job may take NVSHMEM, which has not been started.
Status giveBack(Status why) {
  owner = Owner::Nobody;
  return why;
}

/// This rank's part of the number by which ranks find each other, which rank 0 makes up.
Result<std::string> firstMessage(const nvshmem::Library &library, int64_t rank) {
  BRAID_TRY(setEnvironment());
  BRAID_TRY(take(library));
  nvshmem::UniqueId id;
  id.version = nvshmem::versionOf<nvshmem::UniqueId>();
  if (rank != 0)
    return std::string("taken");
  if (const int code = library.nvshmemx_get_uniqueid(&id))
    return giveBack(unsupported("NVSHMEM: error {} from nvshmemx_get_uniqueid", code));
  return llvm::toHex(llvm::StringRef(reinterpret_cast<const char *>(&id), sizeof(id)));
}

Status start(ProcessGroup &group, const nvshmem::Library &library, const std::string &number) {
  struct Arguments {
    nvshmem::UniqueId id;
    nvshmem::InitAttributes attributes;
  };
  auto held = std::make_shared<Arguments>(); // NVSHMEM keeps the address of the number
  std::string bytes;
  if (!llvm::tryGetFromHex(number, bytes) || bytes.size() != sizeof(held->id))
    return giveBack(peerFailed("NVSHMEM: rank 0 made up no number: {}", number));
  std::memcpy(&held->id, bytes.data(), sizeof(held->id));
  nvshmem::InitAttributes &attributes = held->attributes;
  attributes.version = nvshmem::versionOf<nvshmem::InitAttributes>();
  attributes.arguments.version = nvshmem::versionOf<nvshmem::InitArguments>();
  attributes.arguments.uniqueId.version = nvshmem::versionOf<nvshmem::UniqueIdArguments>();
  if (const int code = library.nvshmemx_set_attr_uniqueid_args(
          static_cast<int>(group.rank()), static_cast<int>(group.size()), &held->id, &attributes))
    return giveBack(unsupported("NVSHMEM: error {} from nvshmemx_set_attr_uniqueid_args", code));
  const auto init = library.nvshmemx_hostlib_init_attr;
  const int code = BRAID_TRY(bounded<int>(group, "nvshmemx_hostlib_init_attr", [init, held] {
    return init(nvshmem::kInitWithUniqueId, &held->attributes);
  }));
  if (code != 0) {
    owner = Owner::Lost; // nobody knows what has been started
    return unsupported("NVSHMEM: error {} from nvshmemx_hostlib_init_attr", code);
  }
  return Status::ok();
}

} // namespace

/// A rank that cannot take it says so before anyone starts: a start waits for all.
Result<std::unique_ptr<SymmetricMemory>> makeNvshmemMemory(ProcessGroup &group,
                                                           ControlPlane &control) {
  const Result<const nvshmem::Library *> library = nvshmem::Library::load();
  Result<std::string> mine = library ? firstMessage(**library, group.rank()) : library.status();
  constexpr llvm::StringRef kFailed = "failed ";
  const std::vector<std::string> ranks =
      BRAID_TRY(control.allGather(mine ? *mine : kFailed.str() + mine.status().message()));
  BRAID_TRY(mine);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (llvm::StringRef text = ranks[rank]; text.consume_front(kFailed)) {
      return giveBack(unsupported("rank {}: {}", rank, text.str()));
    }
  BRAID_TRY(start(group, **library, ranks.front()));
  return std::unique_ptr<SymmetricMemory>(new NvshmemMemory(group, **library));
}

} // namespace braid
