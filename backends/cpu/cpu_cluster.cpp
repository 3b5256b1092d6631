//===- backends/cpu/cpu_cluster.cpp - the CPU ranks of one process ----------------------------===//

#include "backends/cpu/cpu_cluster.h"

#include "backends/cpu/cpu_backend.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

void registerCpuBackend(BackendRegistry &registry, ObserverFactory observe) {
  auto create = [observe](const ClusterOptions &options) {
    Picker picker;
    if (options.scheduleSeed)
      picker = seededPicker(*options.scheduleSeed);
    return CpuCluster::create(options, std::move(picker), observe);
  };
  auto join = [observe](const ClusterOptions &options, std::unique_ptr<Client> client) {
    return CpuCluster::join(options, std::move(client), observe);
  };
  registry.add({.name = "cpu",
                .description = "ranks are threads or processes; GEMMs use OpenBLAS",
                .isOnHost = true,
                .messages = [] { return Result<std::string>("the backend's own"); },
                .create = create,
                .join = join});
}

Result<std::unique_ptr<Cluster>> createCpuCluster(const ClusterOptions &options, Picker picker) {
  return CpuCluster::create(options, std::move(picker));
}

Result<std::unique_ptr<Cluster>> CpuCluster::create(const ClusterOptions &options, Picker picker,
                                                    const ObserverFactory &observe) {
  BRAID_TRY(checkGroup("threads of a process", options.ranks, options.timeout));
  auto parts = std::make_unique<Parts>();
  parts->memory.emplace(BRAID_TRY(JobMemory::create(options.ranks)));
  parts->group = std::make_unique<RankGroup>(*parts->memory, options.timeout);
  return start(std::move(parts), options, std::move(picker), observe);
}

CpuCluster::Rank::Rank(RankGroup &group, CpuDevice::Options options,
                       std::unique_ptr<CommandObserver> own)
    : observer(std::move(own)), recorder(group.memory().slot(options.rank), observer.get()),
      device(group, options, recorder) {}

static Status checkJoin(const ClusterOptions &options, const Client &client) {
  BRAID_TRY(checkGroup("processes", options.ranks, options.timeout));
  if (options.ranks != client.ranks())
    return badInput("expected the job's {} ranks, got {}", client.ranks(), options.ranks);
  if (options.scheduleSeed)
    return unsupported("a random command order requires all ranks to be in one process, but each "
                       "rank is a separate process");
  return Status::ok();
}

/// If joining fails, reports the reason to the other ranks before they notice that this rank left.
Result<std::unique_ptr<Cluster>> CpuCluster::join(const ClusterOptions &options,
                                                  std::unique_ptr<Client> client,
                                                  const ObserverFactory &observe) {
  if (Status status = checkJoin(options, *client); !status.isOk())
    return client->fail(status);
  auto parts = std::make_unique<Parts>();
  auto group = std::make_unique<ProcessGroup>(std::move(client), options.timeout);
  parts->process = group.get();
  parts->group = std::move(group);
  return start(std::move(parts), options, {}, observe);
}

Result<std::unique_ptr<Cluster>> CpuCluster::start(std::unique_ptr<Parts> parts,
                                                   const ClusterOptions &options, Picker picker,
                                                   const ObserverFactory &observe) {
  initializeGemms();
  std::unique_ptr<CpuCluster> cluster(new CpuCluster(std::move(parts)));
  Parts &own = *cluster->parts_;
  for (int64_t i = 0; i < cluster->hosted(); ++i) {
    const int64_t rank = cluster->firstHosted() + i;
    own.ranks.push_back(
        std::make_unique<Rank>(*own.group,
                               CpuDevice::Options{.rank = rank,
                                                  .queues = options.queues,
                                                  .hasWorkers = !picker,
                                                  .process = own.process,
                                                  .isReproducible = options.reproducible},
                               observe ? observe(rank) : nullptr));
  }
  own.group->setWake([&own] {
    for (const std::unique_ptr<Rank> &rank : own.ranks)
      for (HardwareQueue *queue : rank->device.queues())
        queue->wake();
  });
  if (picker)
    cluster->startScheduler(std::move(picker));
  // Stream 0 exists even if the caller never reserves it.
  for (const std::unique_ptr<Rank> &rank : own.ranks)
    if (Status status = rank->device.reserveStreams(1); !status.isOk()) {
      own.group->abort(status);
      return own.group->failure();
    }
  BRAID_TRY(own.group->start());
  return std::unique_ptr<Cluster>(std::move(cluster));
}

std::optional<int64_t> CpuCluster::ranksPerHost() const {
  return parts_->process ? std::optional(parts_->group->memory().ranksPerHost()) : std::nullopt;
}

/// Stops the workers first, because they access peers' memory. If the ranks are processes, every
/// rank then unmaps its peers' memory before any rank frees its own.
CpuCluster::~CpuCluster() {
  RankGroup &group = *parts_->group;
  if (!llvm::all_of(parts_->ranks, [](const auto &rank) { return rank->device.isDrained(); }))
    group.abort(peerFailed("rank {} left the job before its work was done", firstHosted()));
  const auto patience = !parts_->process ? std::chrono::milliseconds(HardwareQueue::kNoLimit)
                        : isStuck()      ? std::chrono::milliseconds(0)
                                         : ProcessGroup::kGrace;
  bool haveEnded = true;
  for (const std::unique_ptr<Rank> &rank : parts_->ranks)
    haveEnded &= rank->device.stopWithin(patience);
  if (!parts_->process) {
    group.stop();
  } else if (haveEnded) {
    parts_->process->close();
  } else {
    parts_->process->leave();
    // A worker is stuck in a command and may still access the parts, so leak them.
    [[maybe_unused]] Parts *kept = parts_.release();
  }
}

// -- Running under a scheduler. --

void CpuCluster::startScheduler(Picker picker) {
  std::vector<CpuDevice *> devices;
  for (const std::unique_ptr<Rank> &rank : parts_->ranks)
    devices.push_back(&rank->device);
  parts_->scheduler = std::make_unique<Scheduler>(std::move(devices), std::move(picker));
  parts_->group->setHostsCommands(
      [&parts = *parts_] { return parts.scheduler->drain(*parts.group); }, [this] { showWaits(); });
}

/// Records the commands at the queue heads, all of which are waiting.
void CpuCluster::showWaits() {
  for (const std::unique_ptr<Rank> &rank : parts_->ranks)
    for (uint32_t queue = 0; queue < rank->device.queues().size(); ++queue)
      if (const QueuedCommand *head = rank->device.queues()[queue]->front())
        rank->recorder.showWait(queue, *head);
}

} // namespace braid
