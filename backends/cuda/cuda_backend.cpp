//===- backends/cuda/cuda_backend.cpp - one rank on one GPU -----------------------------------===//

#include "backends/cuda/cuda_backend.h"

#include "backends/cuda/cuda_device.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace braid {
namespace {

constexpr const char *kHowToShare =
    "; set BRAID_SHARE_GPUS=on to let ranks share GPUs, which makes timings meaningless";

class CudaCluster final : public Cluster {
public:
  static Result<std::unique_ptr<Cluster>> join(const ClusterOptions &options,
                                               std::unique_ptr<Client> client,
                                               const CudaDevice::Options &device);
  ~CudaCluster() override;

  int64_t ranks() const override { return group_.size(); }
  int64_t firstHosted() const override { return group_.rank(); }
  int64_t hosted() const override { return 1; }
  std::optional<int64_t> ranksPerHost() const override { return ranksPerHost_; }
  void setPlans(llvm::ArrayRef<Plan> plans) override { group_.setPlans(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) override { group_.forgetPlans(plans); }
  Device &device(int64_t) override { return *device_; }
  ControlPlane &control(int64_t rank) override { return group_.control(rank); }

private:
  CudaCluster(const ClusterOptions &options, std::unique_ptr<Client> client)
      : group_(std::move(client), options.timeout), ranksPerHost_(group_.memory().ranksPerHost()) {}
  Status start(const CudaDevice::Options &device);
  Status checkOwnGpus(const CudaDevice::Options &options);

  ProcessGroup group_;
  const int64_t ranksPerHost_;
  std::unique_ptr<CudaDevice> device_;
};

Result<std::unique_ptr<Cluster>> CudaCluster::join(const ClusterOptions &options,
                                                   std::unique_ptr<Client> client,
                                                   const CudaDevice::Options &device) {
  std::unique_ptr<CudaCluster> cluster(new CudaCluster(options, std::move(client)));
  if (Status status = cluster->start(device); !status.isOk()) {
    cluster->group_.abort(status); // so that other ranks do not wait for a rank without a GPU
    return status;
  }
  return std::unique_ptr<Cluster>(std::move(cluster));
}

Status CudaCluster::start(const CudaDevice::Options &options) {
  device_ = BRAID_TRY(CudaDevice::create(group_, options));
  group_.setWake([this] { device_->releaseWaits(); });
  group_.setProbe([this] { return device_->publish(); });
  BRAID_TRY(group_.start());
  return checkOwnGpus(options);
}

/// Fails if ranks share a GPU but may not. Compares UUIDs: each rank may see its GPU as device 0.
Status CudaCluster::checkOwnGpus(const CudaDevice::Options &options) {
  std::string uuid = BRAID_TRY(device_->uuid());
  std::vector<std::string> ofRanks = BRAID_TRY(control(group_.rank()).allGather(uuid));
  const auto mine = ofRanks.begin() + group_.rank();
  const auto first = std::find(ofRanks.begin(), mine, *mine);
  if (first == mine || options.mayShare)
    return Status::ok();
  return unsupported("rank {} needs its own GPU, but uses the same GPU as rank {}{}", group_.rank(),
                     first - ofRanks.begin(), kHowToShare);
}

/// Peers close this rank's memory before the rank frees it, even after an abort, because a peer's
/// released streams may still copy from it. Memory that may be in use and streams that do not drain
/// are leaked until the process ends, because freeing the memory would wait for those streams.
CudaCluster::~CudaCluster() {
  if (device_) {
    bool isDone = device_->drain(ProcessGroup::kGrace);
    if (!isDone) {
      group_.abort(peerFailed("rank {} left the job with unfinished work", group_.rank()));
      isDone = device_->drain(ProcessGroup::kGrace);
    }
    if (!isDone)
      device_->abandon();
    device_->closePeers();
    device_->closeMessages();
  }
  // Stops the watchdog, which reads the device.
  if (!group_.close(ProcessGroup::AfterAbort::Waits) && device_)
    device_->abandon();
  device_.reset();
  group_.leave();
}

/// Returns the device number that BRAID_DEVICES assigns to this rank, or -1 if it is not set.
Result<int64_t> deviceFromEnvironment(int64_t localRank) {
  const std::vector<int64_t> devices = BRAID_TRY(devicesOfRanks(processEnvironment()));
  if (devices.empty())
    return -1;
  if (localRank >= static_cast<int64_t>(devices.size()))
    return badInput("expected BRAID_DEVICES to list a GPU for each rank, got a list of length {}, "
                    "which is too short for rank {}",
                    devices.size(), localRank);
  return devices[static_cast<size_t>(localRank)];
}

/// Returns the requested GPU. By default, returns the only visible GPU or, if there are several,
/// the GPU whose number is this rank's local index.
Result<int> chooseDevice(int asked, const char *backend, int64_t localRank, bool mayShare) {
  const int64_t given = asked >= 0 ? asked : BRAID_TRY(deviceFromEnvironment(localRank));
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    return noGpu(code == cudaSuccess ? "the device count is 0" : cudaGetErrorString(code), driver,
                 runtime, backend);
  }
  int64_t device = given >= 0 ? given : count == 1 ? 0 : localRank;
  if (device >= count && mayShare)
    device %= count;
  if (device >= count)
    return unsupported("rank {} needs its own GPU, but this process sees only {}{}", localRank,
                       count, kHowToShare);
  return static_cast<int>(device);
}

Status checkEnvironment() {
  const char *blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking && std::string(blocking) != "0" && *blocking)
    return unsupported("CUDA_LAUNCH_BLOCKING must be unset, but is '{}': it makes the host block "
                       "on a peer before issuing the commands that the peer is waiting for",
                       blocking);
  return Status::ok();
}

Status checkOptions(const ClusterOptions &options) {
  BRAID_TRY(checkGroup("processes", options.ranks, options.timeout));
  if (options.scheduleSeed)
    return unsupported(
        "a random command order requires --backend cpu, with all ranks in one process");
  if (options.queues != 0)
    return unsupported(
        "--queues is not available on GPUs, where the driver assigns streams to hardware queues");
  return checkEnvironment();
}

} // namespace

/// Checks for a missing driver first, because CUDA also reports a missing driver as "insufficient".
Status noGpu(const char *reason, int driver, int runtime, const char *backend) {
  constexpr int kMajor = 1000, kMinor = 10; // in CUDA's version numbers
  std::string text = fmt::format("no GPU found ({})", reason);
  if (driver == 0)
    text = "no GPU found: no NVIDIA driver is installed";
  else if (driver < runtime / kMajor * kMajor)
    text = fmt::format("expected an NVIDIA driver that supports CUDA {}.0, got one that supports "
                       "CUDA {}.{}",
                       runtime / kMajor, driver / kMajor, driver % kMajor / kMinor);
  return unsupported("--backend {}: {}", backend, text);
}

int countGpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static Result<CudaDevice::Options> chooseOptions(const ClusterOptions &options, Client &client,
                                                 const char *backend) {
  BRAID_TRY(checkOptions(options));
  const bool mayShare = BRAID_TRY(isOn(processEnvironment(), "BRAID_SHARE_GPUS", false));
  if (mayShare)
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", /*overwrite=*/0); // so that NCCL accepts shared GPUs
  const int64_t localRank = client.rank() % client.memory().ranksPerHost();
  const int device = BRAID_TRY(chooseDevice(options.device, backend, localRank, mayShare));
  const bool tuned = BRAID_TRY(isOn(processEnvironment(), "BRAID_TUNE", true));
  return CudaDevice::Options{.rank = client.rank(),
                             .device = device,
                             // times are meaningless if GPUs are shared
                             .isTuned = tuned && !mayShare,
                             .mayShare = mayShare,
                             .isReproducible = options.reproducible};
}

/// On failure, reports the reason to the other ranks before they notice that this rank has left.
Result<std::unique_ptr<Cluster>> joinCuda(const ClusterOptions &options,
                                          std::unique_ptr<Client> client, const char *backend) {
  const Result<CudaDevice::Options> chosen = chooseOptions(options, *client, backend);
  return chosen ? CudaCluster::join(options, std::move(client), *chosen)
                : client->fail(chosen.status());
}

} // namespace braid
