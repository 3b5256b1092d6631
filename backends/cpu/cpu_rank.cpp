//===- backends/cpu/cpu_rank.cpp - a CPU rank whose peers are other processes -----------------===//

#include "backends/cpu/cpu_rank.h"

#include "ir/failure.h"

namespace braid {

namespace {

Status check(const ClusterOptions &options, const Client &client) {
  BRAID_TRY(checkGroup("processes", options.ranks, options.timeout));
  if (options.ranks != client.ranks())
    return badInput("expected the job's {} ranks, got {}", client.ranks(), options.ranks);
  if (options.scheduleSeed)
    return unsupported("a random order of commands requires all ranks in one process, got ranks "
                       "that are processes");
  return Status::ok();
}

} // namespace

/// Reports to the other ranks why this rank does not join, before they notice that it has left.
Result<std::unique_ptr<Cluster>> CpuRank::join(const ClusterOptions &options,
                                               std::unique_ptr<Client> client,
                                               const ObserverFactory &observe) {
  if (Status status = check(options, *client); !status.isOk())
    return client->fail(status);
  initializeGemms();
  auto parts = std::make_unique<Parts>(options, std::move(client), observe);
  // Stream 0 exists without being reserved by the caller.
  if (Status status = parts->device.reserveStreams(1); !status.isOk()) {
    parts->group.abort(status);
    return parts->group.failure();
  }
  BRAID_TRY(parts->group.start());
  return std::unique_ptr<Cluster>(new CpuRank(std::move(parts)));
}

CpuRank::Parts::Parts(const ClusterOptions &options, std::unique_ptr<Client> client,
                      const ObserverFactory &observe)
    : group(std::move(client), options.timeout),
      observer(observe ? observe(group.rank()) : nullptr), recorder(group.slot(), observer.get()),
      device(group, CpuDevice::Options{.rank = group.rank(),
                                       .queues = options.queues,
                                       .hasWorkers = true,
                                       .observer = &recorder,
                                       .process = &group,
                                       .isReproducible = options.reproducible}) {
  group.setWake([this] { wakeWorkers(); });
}

void CpuRank::Parts::wakeWorkers() const {
  for (HardwareQueue *queue : device.queues())
    queue->wake();
}

Device &CpuRank::device([[maybe_unused]] int64_t rank) {
  assert(rank == firstHosted() && "the other ranks are in other processes");
  return parts_->device;
}

ControlPlane &CpuRank::control([[maybe_unused]] int64_t rank) {
  assert(rank == firstHosted() && "the other ranks are in other processes");
  return parts_->group;
}

/// Stops the workers first, because they access the memory of peers. All ranks then unmap peers'
/// memory before any of them frees its memory.
CpuRank::~CpuRank() {
  ProcessGroup &group = parts_->group;
  if (!parts_->device.isDrained())
    group.abort(peerFailed("rank {} left before its work was done", group.rank()));
  auto patience = isStuck() ? std::chrono::milliseconds(0) : ProcessGroup::kGrace;
  if (!parts_->device.stopWithin(patience)) {
    group.leave();
    // A worker is in a command that does not end, and may still access all of this.
    [[maybe_unused]] Parts *kept = parts_.release();
    return;
  }
  group.close();
}

} // namespace braid
