//===- backends/cpu/cpu_cluster.cpp - the ranks of one process, connected ---------------------===//

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

Status synchronizeAll(Cluster &cluster) {
  return static_cast<CpuCluster &>(cluster).synchronizeAll();
}

Result<std::unique_ptr<Cluster>> CpuCluster::create(const ClusterOptions &options, Picker picker,
                                                    const ObserverFactory &observe) {
  BRAID_TRY(checkInProcess(options));
  initializeGemms();
  std::unique_ptr<CpuCluster> cluster(new CpuCluster(options, std::move(picker), observe));
  BRAID_TRY(cluster->start());
  return std::unique_ptr<Cluster>(std::move(cluster));
}

CpuCluster::CpuCluster(const ClusterOptions &options, Picker picker, const ObserverFactory &observe)
    : group_(options.ranks, options.timeout), isScheduled_(picker != nullptr) {
  for (int64_t rank = 0; rank < options.ranks; ++rank) {
    observers_.push_back(observe ? observe(rank) : nullptr);
    devices_.push_back(std::make_unique<CpuDevice>(
        group_, CpuDevice::Options{.rank = rank,
                                   .queues = options.queues,
                                   .hasWorkers = !isScheduled_,
                                   .observer = observers_.back().get(),
                                   .isReproducible = options.reproducible}));
    controls_.emplace_back(group_, rank);
  }
  group_.setProbe([this] { return progress(); });
  group_.setReporter([this](std::string headline) { return stallReport(std::move(headline)); });
  group_.setWake([this] { wakeWorkers(); });
  if (isScheduled_)
    startScheduler(std::move(picker));
}

/// Stream 0 is there without being asked for.
Status CpuCluster::start() {
  for (std::unique_ptr<CpuDevice> &device : devices_)
    BRAID_TRY(device->reserveStreams(1));
  return Status::ok();
}

CpuCluster::~CpuCluster() {
  // Workers reach into other ranks' memory: all have to end before any device goes.
  group_.abort(peerFailed("the cluster was destroyed"));
  for (std::unique_ptr<CpuDevice> &device : devices_)
    device->stop();
}

GroupProgress CpuCluster::progress() const {
  GroupProgress progress;
  for (const std::unique_ptr<CpuDevice> &device : devices_)
    for (const HardwareQueue *queue : device->queues()) {
      progress.count += queue->progress();
      // Without workers, what has been issued moves only when every rank has come.
      progress.busy |= !isScheduled_ && queue->isBusy();
    }
  return progress;
}

void CpuCluster::wakeWorkers() {
  for (std::unique_ptr<CpuDevice> &device : devices_)
    for (HardwareQueue *queue : device->queues())
      queue->wake();
}

std::string CpuCluster::stallReport(std::string headline) const {
  std::vector<BlockedHead> heads;
  for (int64_t rank = 0; rank < group_.size(); ++rank)
    for (const HardwareQueue *queue : devices_[rank]->queues())
      if (std::optional<PendingWait> wait = queue->blockedIn())
        heads.push_back({rank, *wait});
  return stallText(std::move(headline), std::move(heads), absences());
}

std::vector<std::string> CpuCluster::absences() const {
  std::vector<std::string> notes;
  for (int64_t rank = 0; rank < group_.size(); ++rank) {
    if (group_.host(rank) == HostActivity::InAllGather)
      notes.push_back(fmt::format("rank {} waits for all ranks in allGather", rank));
    if (group_.host(rank) == HostActivity::OwnCode)
      notes.push_back(fmt::format("rank {} has not called synchronize or allGather", rank));
  }
  return notes;
}

// -- With a scheduler. --

void CpuCluster::startScheduler(Picker picker) {
  std::vector<CpuDevice *> devices;
  for (std::unique_ptr<CpuDevice> &device : devices_)
    devices.push_back(device.get());
  scheduler_ = std::make_unique<Scheduler>(std::move(devices), std::move(picker));
  group_.setAllBlocked([this] { return runScheduled(); });
}

/// A rank that has nothing left goes on, and may issue what the others wait for. If no rank can,
/// none ever will: those in allGather wait for those here.
std::vector<bool> CpuCluster::runScheduled() {
  scheduler_->drain(group_);
  std::vector<bool> released = scheduler_->drained();
  bool canGoOn = false;
  for (int64_t rank = 0; rank < group_.size(); ++rank)
    canGoOn |= released[rank] && group_.host(rank) == HostActivity::InSynchronize;
  if (!canGoOn && !group_.isAborted())
    group_.abort(Status(StatusCode::TimedOut, stallText("deadlock: nothing can go on",
                                                        scheduler_->blocked(), absences())));
  return released;
}

} // namespace braid
