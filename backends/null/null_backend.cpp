//===- backends/null/null_backend.cpp - a backend that executes nothing -----------------------===//

#include "backends/null/null_backend.h"

#include "ir/failure.h"
#include "runtime/job/rank_group.h"

#include <algorithm>

namespace braid {

Status NullDevice::reserveStreams(uint32_t count) {
  streams_ = std::max(streams_, count);
  return Status::ok();
}

Result<uint32_t> NullDevice::createEvents(uint32_t count) {
  events_ += count;
  return events_ - count;
}

void NullDevice::issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool,
                            TransferMode) {
  for (const BatchedCommand &step : steps)
    if (step.kind == CommandKind::Copy)
      copy(stream, tag, step.dst, step.src, step.bytes);
    else if (step.kind == CommandKind::Sum)
      sum(stream, tag, *step.sum);
    else
      ++(step.kind == CommandKind::Signal ? counts_.signals : counts_.awaits);
}

namespace {

class NullCluster final : public Cluster {
public:
  NullCluster(const ClusterOptions &options, JobMemory memory)
      : memory_(std::move(memory)), group_(memory_, options.timeout) {
    for (int64_t rank = 0; rank < options.ranks; ++rank)
      devices_.push_back(std::make_unique<NullDevice>(group_, rank, options.reproducible));
  }
  Status start() { return group_.start(); }

  int64_t ranks() const override { return group_.size(); }
  Device &device(int64_t rank) override { return *devices_[rank]; }
  ControlPlane &control(int64_t rank) override { return group_.control(rank); }

private:
  JobMemory memory_;
  RankGroup group_;
  std::vector<std::unique_ptr<NullDevice>> devices_;
};

Result<std::unique_ptr<Cluster>> createCluster(const ClusterOptions &options) {
  BRAID_TRY(checkGroup("threads of a process", options.ranks, options.timeout));
  if (options.scheduleSeed)
    return unsupported(
        "a random command order requires a backend that executes commands, got 'null'");
  if (options.queues != 0)
    return unsupported("a limit on queues requires a backend that executes commands, got 'null'");
  JobMemory memory = BRAID_TRY(JobMemory::create(options.ranks));
  auto cluster = std::make_unique<NullCluster>(options, std::move(memory));
  BRAID_TRY(cluster->start());
  return std::unique_ptr<Cluster>(std::move(cluster));
}

} // namespace

void registerNullBackend(BackendRegistry &registry) {
  registry.add({.name = "null",
                .description = "accepts all commands without executing them",
                .computes = false,
                .isOnHost = true,
                .create = createCluster});
}

} // namespace braid
