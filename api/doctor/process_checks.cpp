//===- api/doctor/process_checks.cpp - what a container or a user may not do ------------------===//

#include "api/doctor/check.h"

#include "api/launch/launch.h"
#include "ir/counted.h"
#include "runtime/memory_limit.h"

#include <algorithm>

namespace braid::doctor {
namespace {

constexpr uint64_t kMiB = uint64_t(1) << 20, kGiB = uint64_t(1) << 30;

std::string bytesText(uint64_t bytes) { return strOfBytes(static_cast<double>(bytes)); }

/// Ranks that are to be counted with: those of the job, or one for each GPU.
int64_t ranksOf(const Facts &facts) {
  if (facts.ranks > 0)
    return facts.ranks;
  const int64_t seen = facts.cudaNumber("devices").value_or(0);
  return std::max<int64_t>(seen > 0 ? seen : static_cast<int64_t>(facts.gpus.size()), 1);
}

void lookAtPidNamespace(const Facts &facts, Lines &lines) {
  const uint64_t own = facts.own.pidNamespace;
  const bool isNested = facts.status.pidNamespaces.value_or(1) > 1;
  if (own == 0)
    return;
  lines.add(own == kFirstPidNamespace && !isNested ? "first" : "own");
}

void lookAtIpcNamespace(const Facts &facts, Lines &lines) {
  if (facts.own.ipcNamespace != 0)
    lines.add(facts.own.ipcNamespace == kFirstIpcNamespace ? "first" : "own");
}

void lookAtSeccomp(const Facts &facts, Lines &lines) {
  if (facts.status.seccomp)
    lines.add(*facts.status.seccomp == 0 ? "off" : "filtered");
}

void lookAtPtrace(const Facts &facts, Lines &lines) {
  if (facts.ptraceScope.value_or(0) > 0 && !facts.status.hasCapability(kCapSysPtrace))
    lines.add("restricted", *facts.ptraceScope);
}

/// NCCL puts some MiB for each pair of ranks there, where it does not copy from GPU to GPU.
void lookAtSharedMemory(const Facts &facts, Lines &lines) {
  constexpr uint64_t kLeast = 32 * kMiB;
  if (!facts.sharedMemory)
    return lines.add("missing");
  const std::string size = bytesText(facts.sharedMemory->size);
  const std::string available = bytesText(facts.sharedMemory->available);
  if (facts.sharedMemory->available < kLeast)
    return lines.add("full", size, available);
  lines.add(facts.sharedMemory->size < kGiB ? "small" : "fine", size, available);
}

void lookAtOpenFiles(const Facts &facts, Lines &lines) {
  constexpr int64_t kOfCuda = 256; ///< what CUDA has open in a process, and its libraries, at most
  const int64_t ranks = ranksOf(facts);
  const int64_t needed = std::max(openFilesFor(ranks), facts.hasGpu() ? kOfCuda : 0);
  if (!facts.limits.openFiles)
    return lines.add("fine", "any number of");
  const uint64_t limit = *facts.limits.openFiles;
  if (limit < static_cast<uint64_t>(needed))
    lines.add("few", limit, needed, ranks);
  else
    lines.add("fine", limit);
}

void lookAtLockedMemory(const Facts &facts, Lines &lines) {
  if (facts.limits.lockedBytes && *facts.limits.lockedBytes < 64 * kMiB)
    lines.add("little", *facts.limits.lockedBytes >> 10);
}

/// The limit is on all threads of a user; who may exceed it does.
void lookAtProcesses(const Facts &facts, Lines &lines) {
  constexpr int64_t kOfRank = 16; ///< threads
  const bool isExempt = facts.status.user == 0 || facts.status.hasCapability(kCapSysResource) ||
                        facts.status.hasCapability(kCapSysAdmin);
  if (!facts.limits.processes || isExempt)
    return;
  const uint64_t needed = static_cast<uint64_t>(ranksOf(facts) * kOfRank);
  if (*facts.limits.processes < needed)
    lines.add("few", *facts.limits.processes, needed, ranksOf(facts));
}

/// What CUDA reserves at least. Pointers are unified: an address says which memory it is of, the
/// host's or one device's. So a process has a range of addresses for all memory of each GPU that it
/// sees, from its start on, whatever it takes of that.
uint64_t addressesOfCuda(const Facts &facts) {
  constexpr uint64_t kLeast = 16 * kGiB; ///< of a GPU that does not say; no smaller one runs these
  uint64_t sum = 0;
  for (const size_t index : shownGpus(facts))
    sum += facts.nvml.value->devices[index].memoryBytes.value_or(kLeast);
  return std::max(sum, kLeast);
}

/// What CPU ranks take at least, one by one if each is a process of a job, else as threads of one.
/// A job of one rank with small matrices was seen to need 606 MiB: OpenBLAS's buffers, and for each
/// thread 8 MiB of stack and up to 64 MiB of an arena of malloc's. 32 ranks as threads took 3.8 GiB
/// on a machine of few cores, where threads share arenas. The job memory is 23 KiB a rank; buffers
/// come on top, and a run that has no room for them says so itself.
uint64_t addressesOfRanks(int64_t threads) {
  constexpr uint64_t kOfProcess = 512 * kMiB, kOfRank = 64 * kMiB;
  return kOfProcess + static_cast<uint64_t>(threads) * kOfRank;
}

/// Below these nothing runs, so it is a problem. Above them nobody knows, so it is a note.
void lookAtAddresses(const Facts &facts, Lines &lines) {
  if (!facts.limits.addressBytes)
    return;
  const std::string limit = bytesText(*facts.limits.addressBytes);
  const int64_t ranks = facts.ofRanks.empty() && !facts.hasGpu() ? ranksOf(facts) : 1;
  const uint64_t needed = addressesOfRanks(ranks);
  if (isShortOfAddresses(facts))
    lines.add("little-for-gpus", limit, bytesText(addressesOfCuda(facts)));
  else if (*facts.limits.addressBytes < needed)
    lines.add(ranks > 1 ? "little-for-threads" : "little", limit, bytesText(needed),
              counted(ranks, "rank"));
  else
    lines.add("limited", limit);
}

void lookAtProcessors(const Facts &facts, Lines &lines) {
  const int64_t ranks = facts.ranks;
  if (ranks > facts.processors)
    lines.add("few", ranks, facts.processors);
  else
    lines.add("fine", facts.processors);
}

bool isAboutFiles(const Failure &failure) {
  return failure.mentions({"open files", "Too many open files"});
}

/// CUDA that gets no addresses fails in many ways.
bool isAboutAddresses(const Failure &failure) {
  const bool isOfGpu = failure.isOnGpus && failure.mentions({"GPU", "CUDA", "cuda", "signal"});
  return isOfGpu || failure.mentions({"ulimit -v", "memory addresses", "out of memory",
                                      "Cannot allocate memory", "failed to map segment"});
}

} // namespace

bool isShortOfAddresses(const Facts &facts) {
  return facts.hasGpu() && facts.limits.addressBytes &&
         *facts.limits.addressBytes < addressesOfCuda(facts);
}

std::vector<Check> processChecks() {
  using enum Severity;
  return {
      {.name = "address-space",
       .lines = {{"little-for-gpus", Problem,
                  "a process may have {0} of addresses (ulimit -v), but CUDA reserves as many as "
                  "its GPUs have memory, {1} or more",
                  "ulimit -v unlimited, or a higher limit where the job is started"},
                 {"little", Problem,
                  "a process may have {0} of addresses (ulimit -v), but needs {1} or more for {2}",
                  "ulimit -v unlimited"},
                 {"little-for-threads", Problem,
                  "a process may have {0} of addresses (ulimit -v), but needs {1} or more for {2}",
                  "ulimit -v unlimited; or --processes, so that each rank has its own"},
                 {"limited", Note, "a process may have {0} of addresses (ulimit -v)",
                  "ulimit -v unlimited, unless that is meant"}},
       .look = lookAtAddresses,
       .explains = isAboutAddresses},
      {.name = "open-files",
       .lines = {{"few", Problem,
                  "a process may have {0} files open (ulimit -Hn), but {2} ranks need {1}",
                  "raise the hard limit where the job is started: ulimit -Hn {1}, or "
                  "--ulimit nofile={1} of docker run"},
                 {"fine", Ok, "a process may have {0} files open", ""}},
       .look = lookAtOpenFiles,
       .explains = isAboutFiles},
      {.name = "processes",
       .lines = {{"few", Problem,
                  "this user may have {0} threads (ulimit -u), but {2} ranks need {1} and more",
                  "ulimit -u {1}, or more, where the job is started"}},
       .look = lookAtProcesses,
       .explains =
           [](const Failure &failure) {
             return failure.mentions({"ulimit -u", "start a thread", "Resource temporarily"});
           }},
      {.name = "locked-memory",
       .needsGpu = true,
       .lines = {{"little", Note, "a process may lock {0} KiB of memory (ulimit -l)",
                  "NCCL over InfiniBand needs more: ulimit -l unlimited"}},
       .look = lookAtLockedMemory},
      {.name = "shared-memory",
       .needsGpu = true,
       .lines = {{"missing", Problem, "there is no /dev/shm",
                  "NCCL needs it: mount a tmpfs there; docker run --shm-size=1g does"},
                 {"full", Problem, "/dev/shm has {0}, of which {1} are free",
                  "NCCL needs more between ranks: docker run --shm-size=1g, or remove what is "
                  "left there"},
                 {"small", Note, "/dev/shm has {0}",
                  "NCCL needs more of it with many ranks: docker run --shm-size=1g"},
                 {"fine", Ok, "/dev/shm has {0}, of which {1} are free", ""}},
       .look = lookAtSharedMemory,
       .explains =
           [](const Failure &failure) {
             return failure.mentions({"/dev/shm", "shared memory", "NCCL"});
           }},
      {.name = "pid-namespace",
       .needsGpu = true,
       .lines = {{"first", Ok, "processes are in the machine's own PID name space", ""},
                 {"own", Note, "processes are in a PID name space of their own",
                  "fine if all ranks are in this one; CUDA IPC fails between several: docker run "
                  "--pid=host; or choose --memory vmm"}},
       .look = lookAtPidNamespace},
      {.name = "ipc-namespace",
       .needsGpu = true,
       .lines = {{"first", Ok, "processes are in the machine's own IPC name space", ""},
                 {"own", Note, "processes are in an IPC name space of their own",
                  "fine if all ranks are in this one; CUDA IPC fails between several: docker run "
                  "--ipc=host; or choose --memory vmm"}},
       .look = lookAtIpcNamespace},
      {.name = "seccomp",
       .needsGpu = true,
       .lines = {{"off", Ok, "system calls are not filtered", ""},
                 {"filtered", Note, "system calls are filtered (seccomp)",
                  "if memory of peers cannot be opened: docker run --security-opt "
                  "seccomp=unconfined"}},
       .look = lookAtSeccomp},
      {.name = "ptrace",
       .needsGpu = true,
       .lines = {{"restricted", Note,
                  "processes may not take descriptors from each other (ptrace_scope {0}, no "
                  "CAP_SYS_PTRACE)",
                  "Braid does not; PyTorch with expandable segments does: docker run "
                  "--cap-add=SYS_PTRACE"}},
       .look = lookAtPtrace},
      {.name = "processors",
       .lines = {{"few", Note, "{0} ranks share {1} processors",
                  "each rank's host thread needs one, or signals come late"},
                 {"fine", Ok, "{0} processors", ""}},
       .look = lookAtProcessors},
  };
}

} // namespace braid::doctor
