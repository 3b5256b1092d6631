//===- backends/nccl/nccl_backend.cpp - GPUs that send each other messages --------------------===//

#include "backends/nccl/nccl_backend.h"

#include "backends/nccl/nccl_messages.h"
#include "ir/failure.h"
#include "runtime/execute/rank_group.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/environment.h"

#include <fmt/format.h>

#include <cstdlib>

namespace braid {

Result<std::unique_ptr<Cluster>> joinNccl(const ClusterOptions &options,
                                          std::unique_ptr<Client> client,
                                          const CudaRankOptions &rank) {
  if (options.reproducible)
    return unsupported("--reproducible: NCCL adds in an order of its own; --backend cuda adds in "
                       "that of ranks");
  const nccl::Library *library = BRAID_TRY(nccl::Library::load());
  if (BRAID_TRY(isOn(processEnvironment(), "BRAID_SHARE_GPUS", rank.mayShare)))
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", /*overwrite=*/0); // else it refuses
  CudaRankOptions chosen = rank;
  chosen.makeMessages = [library, number = client->rank()](
                            const RankGroup &group) -> Result<std::unique_ptr<MessageLibrary>> {
    return std::unique_ptr<MessageLibrary>(std::make_unique<nccl::NcclMessages>(
        *library, number, nccl::Patience{group.timeout(), [&group] { return group.isAborted(); }}));
  };
  return joinCuda(options, std::move(client), chosen);
}

void registerNcclBackend(BackendRegistry &registry) {
  registry.add({.name = "nccl",
                .description = "ranks as processes, one GPU each, which send messages by NCCL",
                .hasGraphs = true,
                .transport = Transport::Messages,
                .library = describeNccl,
                .join = [](const ClusterOptions &options, std::unique_ptr<Client> client) {
                  return joinNccl(options, std::move(client), {});
                }});
}

Result<std::string> describeNccl() {
  const nccl::Library *library = BRAID_TRY(nccl::Library::load());
  return fmt::format("{} ({})", nccl::versionText(library->version), library->file);
}

} // namespace braid
