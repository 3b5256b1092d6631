//===- api/doctor/process_checks.cpp - limits of this process and its container ---------------===//

#include "api/doctor/check.h"

#include "api/launch/launch.h"
#include "ir/counted.h"
#include "runtime/memory_limit.h"

#include <algorithm>

namespace braid::doctor {
namespace {

constexpr uint64_t kMiB = uint64_t(1) << 20, kGiB = uint64_t(1) << 30;

std::string bytesText(uint64_t bytes) { return strOfBytes(static_cast<double>(bytes)); }

/// Returns the number of ranks that the user or the job has specified, or else the number of GPUs.
int64_t ranksOf(const Facts &facts) {
  const auto gpus = static_cast<int64_t>(facts.visibleGpus().size());
  return facts.ranks > 0 ? facts.ranks : std::max<int64_t>({facts.cudaDevices(), gpus, 1});
}

/// Returns the minimum address space that a process needs, in bytes. CUDA reserves as much address
/// space as all visible GPUs have memory. Without GPUs, ranks are threads of one process, which
/// needs space for OpenBLAS's buffers, and for a stack and a malloc arena per thread.
uint64_t neededAddresses(const Facts &facts) {
  if (!facts.hasGpu())
    return 512 * kMiB + static_cast<uint64_t>(ranksOf(facts)) * 64 * kMiB;
  constexpr uint64_t kLeast = 16 * kGiB; // every supported GPU has at least this much memory
  uint64_t sum = 0;
  for (const Gpu &gpu : facts.visibleGpus())
    sum += gpu.nvml.memoryBytes.value_or(kLeast);
  return std::max(sum, kLeast);
}

void checkAddresses(const Facts &facts, Lines &lines) {
  if (!facts.limits.addressBytes)
    return;
  const std::string limit = bytesText(*facts.limits.addressBytes);
  const uint64_t needed = neededAddresses(facts);
  if (*facts.limits.addressBytes >= needed)
    lines.note("limited", "the address space of a process is limited to {0} (ulimit -v)",
               "run ulimit -v unlimited, unless the limit is intentional", limit);
  else if (facts.hasGpu())
    lines.problem("little-for-gpus",
                  "the address space of a process is limited to {0} (ulimit -v), but CUDA reserves "
                  "addresses for all GPU memory, {1} or more",
                  "raise the limit where the job is started: ulimit -v unlimited", limit,
                  bytesText(needed));
  else
    lines.problem(
        "little",
        "the address space of a process is limited to {0} (ulimit -v), but it needs {1} "
        "or more for {2}",
        "run ulimit -v unlimited, or use --processes to give each rank its own address space",
        limit, bytesText(needed), counted(ranksOf(facts), "rank"));
}

void checkOpenFiles(const Facts &facts, Lines &lines) {
  constexpr int64_t kOfCuda = 256; // maximum for CUDA and its libraries in one process
  const int64_t ranks = ranksOf(facts);
  const int64_t needed = std::max(openFilesFor(ranks), facts.hasGpu() ? kOfCuda : 0);
  if (!facts.limits.openFiles)
    lines.ok("fine", "the number of open files is unlimited");
  else if (*facts.limits.openFiles < static_cast<uint64_t>(needed))
    lines.problem("few", "a process may open {0} files (ulimit -Hn), but {2} ranks need {1}",
                  "raise the hard limit where the job is started: ulimit -Hn {1}, or docker run "
                  "--ulimit nofile={1}",
                  *facts.limits.openFiles, needed, ranks);
  else
    lines.ok("fine", "a process may open {0} files", *facts.limits.openFiles);
}

/// NCCL needs a few MiB of /dev/shm for each pair of ranks whose GPUs cannot access each other.
void checkSharedMemory(const Facts &facts, Lines &lines) {
  if (!facts.sharedMemory)
    return lines.problem("missing", "/dev/shm does not exist",
                         "NCCL needs it: mount a tmpfs there, or use docker run --shm-size=1g");
  const std::string size = bytesText(facts.sharedMemory->size);
  const std::string available = bytesText(facts.sharedMemory->available);
  if (facts.sharedMemory->available < 32 * kMiB)
    lines.problem("full", "/dev/shm has {0}, with {1} free",
                  "NCCL needs more: use docker run --shm-size=1g, or delete leftover files", size,
                  available);
  else if (facts.sharedMemory->size < kGiB)
    lines.note("small", "/dev/shm has {0}",
               "NCCL needs more for many ranks: use docker run --shm-size=1g", size);
  else
    lines.ok("fine", "/dev/shm has {0}, with {1} free", size, available);
}

void checkNamespace(const std::optional<bool> &isOwn, const char *kind, const char *flag,
                    Lines &lines) {
  if (isOwn.value_or(false))
    lines.note("own", "this process is in a separate {0} namespace",
               "CUDA IPC fails across namespaces: if any rank is in another namespace, use docker "
               "run --{1}=host, or --memory vmm",
               kind, flag);
  else if (isOwn)
    lines.ok("first", "this process is in the host's {0} namespace", kind);
}

void checkProcessors(const Facts &facts, Lines &lines) {
  if (facts.ranks > facts.processors)
    lines.note("few", "{0} ranks share {1} processors",
               "each rank's host thread needs its own processor; otherwise signals are delayed",
               facts.ranks, facts.processors);
  else
    lines.ok("fine", "{0} processors", facts.processors);
}

} // namespace

std::vector<Check> processChecks() {
  return {{"address-space", false, checkAddresses},
          {"open-files", false, checkOpenFiles},
          {"shared-memory", true, checkSharedMemory},
          {"pid-namespace", true,
           [](auto &facts, auto &lines) { checkNamespace(facts.hasOwnPids, "PID", "pid", lines); }},
          {"ipc-namespace", true,
           [](auto &facts, auto &lines) { checkNamespace(facts.hasOwnIpc, "IPC", "ipc", lines); }},
          {"processors", false, checkProcessors}};
}

} // namespace braid::doctor
