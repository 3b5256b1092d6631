//===- backends/cuda/gpu_backends.cpp - GPU backends with peer memory or messages -------------===//

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_facts.h"
#include "backends/nccl/nccl_library.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/client.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace braid {
namespace {

/// Requests 32 hardware queues. With the driver's default of eight queues, runs took longer and run
/// times varied by 20 % or more, even for a single GEMM (backends/cuda/README.md). The driver reads
/// CUDA_DEVICE_MAX_CONNECTIONS when the process first uses a GPU.
void askForQueues() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0); }

/// Returns the value of CUDA_DEVICE_MAX_CONNECTIONS, or 1 if the value is not a number.
uint32_t queuesAskedFor() {
  uint32_t queues = 0;
  const bool isNumber =
      !llvm::StringRef(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")).getAsInteger(10, queues);
  return isNumber ? std::clamp(queues, 1u, 32u) : 1;
}

/// Returns the version and file of this machine's NCCL, or the reason why NCCL is unavailable.
Result<std::string> describeNccl() {
  const nccl::Library *library = BRAID_TRY(nccl::Library::load());
  return fmt::format("{} ({})", nccl::versionText(library->version), library->file);
}

/// Returns either the fact "error", or the facts "version" (such as 2.28.3) and "file".
BackendFacts ncclFacts() {
  const Result<const nccl::Library *> library = nccl::Library::load();
  if (!library)
    return {{"error", library.status().message()}};
  return {{"version", nccl::versionText((*library)->version)}, {"file", (*library)->file}};
}

/// Sets the chunk size for sends to other hosts. With NCCL's default of 128 KiB, sends over sockets
/// are slower than NCCL's collectives. The slowdown can be reproduced on two GPUs with
/// NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1:
///   braid bench gather-matmul --backend nccl --shapes 4096x64x8192
///     --impl 'gather,gather;transfers=collective'
void askForLargeSends() { setenv("NCCL_P2P_NET_CHUNKSIZE", "524288", /*overwrite=*/0); }

Result<std::unique_ptr<Cluster>> joinGpus(const ClusterOptions &options,
                                          std::unique_ptr<Client> client) {
  askForLargeSends();
  return joinCuda(options, std::move(client));
}

/// Opens NCCL before joining, to fail early if it is unavailable.
Result<std::unique_ptr<Cluster>> joinNccl(const ClusterOptions &options,
                                          std::unique_ptr<Client> client) {
  if (options.reproducible)
    return client->fail(unsupported("--reproducible is not available with NCCL, which chooses the "
                                    "order of additions; use --backend cuda"));
  if (const auto library = nccl::Library::load(); !library)
    return client->fail(library.status());
  askForLargeSends();
  return joinCuda(options, std::move(client), "nccl");
}

Backend backendOf(const char *name, const char *description, Transport transport,
                  decltype(&joinGpus) join, BackendFacts (*facts)()) {
  return {.name = name,
          .description = description,
          .hasGraphs = true,
          .ownQueues = queuesAskedFor(),
          .transport = transport,
          .messages = describeNccl,
          .facts = facts,
          .join = join};
}

} // namespace

void registerGpuBackends(BackendRegistry &registry) {
  askForQueues();
  registry.add(backendOf("cuda", "one process and one GPU per rank, connected by CUDA IPC",
                         Transport::PeerMemory, joinGpus, cudaFacts));
  registry.add(backendOf("nccl", "one process and one GPU per rank, connected by NCCL",
                         Transport::Messages, joinNccl, ncclFacts));
}

} // namespace braid
