//===- backends/cpu/cpu_cluster.cpp - CPU ranks that are threads of one process ---------------===//

#include "backends/cpu/cpu_cluster.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/cpu_rank.h"
#include "ir/failure.h"

#include <fmt/format.h>

namespace braid {

void registerCpuBackend(BackendRegistry &registry, ObserverFactory observe) {
  auto create = [observe](const ClusterOptions &options) {
    Picker picker;
    if (options.scheduleSeed)
      picker = seededPicker(*options.scheduleSeed);
    return CpuCluster::create(options, std::move(picker), observe);
  };
  auto join = [observe](const ClusterOptions &options, std::unique_ptr<Client> client) {
    return CpuRank::join(options, std::move(client), observe);
  };
  registry.add({.name = "cpu",
                .description = "ranks as threads or processes, GEMMs by OpenBLAS",
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
  initializeGemms();
  JobMemory memory = BRAID_TRY(JobMemory::create(options.ranks));
  std::unique_ptr<CpuCluster> cluster(
      new CpuCluster(options, std::move(picker), observe, std::move(memory)));
  BRAID_TRY(cluster->start());
  return std::unique_ptr<Cluster>(std::move(cluster));
}

CpuCluster::CpuCluster(const ClusterOptions &options, Picker picker, const ObserverFactory &observe,
                       JobMemory memory)
    : memory_(std::move(memory)), group_(memory_, options.timeout) {
  for (int64_t rank = 0; rank < options.ranks; ++rank) {
    observers_.push_back(observe ? observe(rank) : nullptr);
    recorders_.push_back(
        std::make_unique<JobRecorder>(memory_.slot(rank), observers_.back().get()));
    devices_.push_back(std::make_unique<CpuDevice>(
        group_, CpuDevice::Options{.rank = rank,
                                   .queues = options.queues,
                                   .hasWorkers = !picker,
                                   .observer = recorders_.back().get(),
                                   .isReproducible = options.reproducible}));
    controls_.emplace_back(group_, rank);
  }
  group_.setWake([this] { wakeWorkers(); });
  if (picker)
    startScheduler(std::move(picker));
}

/// Stream 0 exists without being reserved by the caller.
Status CpuCluster::start() {
  for (std::unique_ptr<CpuDevice> &device : devices_)
    BRAID_TRY(device->reserveStreams(1));
  return Status::ok();
}

CpuCluster::~CpuCluster() {
  // Workers access other ranks' memory, so all must end before any device is destroyed.
  group_.abort(peerFailed("the cluster was destroyed"));
  for (std::unique_ptr<CpuDevice> &device : devices_)
    device->stop();
}

void CpuCluster::wakeWorkers() {
  for (std::unique_ptr<CpuDevice> &device : devices_)
    for (HardwareQueue *queue : device->queues())
      queue->wake();
}

// -- With a scheduler. --

void CpuCluster::startScheduler(Picker picker) {
  std::vector<CpuDevice *> devices;
  for (std::unique_ptr<CpuDevice> &device : devices_)
    devices.push_back(device.get());
  scheduler_ = std::make_unique<Scheduler>(std::move(devices), std::move(picker));
  auto run = [this] {
    scheduler_->drain(group_);
    return scheduler_->drained();
  };
  group_.setHostsCommands({run, [this] { showWaits(); }});
}

/// Records the remaining heads, which wait.
void CpuCluster::showWaits() {
  for (size_t rank = 0; rank < devices_.size(); ++rank)
    for (uint32_t queue = 0; queue < devices_[rank]->queues().size(); ++queue)
      if (const QueuedCommand *head = devices_[rank]->queues()[queue]->front())
        recorders_[rank]->showWait(queue, *head);
}

} // namespace braid
