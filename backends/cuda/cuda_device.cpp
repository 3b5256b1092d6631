//===- backends/cuda/cuda_device.cpp - one GPU ------------------------------------------------===//

#include "backends/cuda/cuda_device.h"

#include "ir/failure.h"
#include "runtime/warn.h"

#include "llvm/ADT/StringExtras.h"

#include <thread>
#include <utility>

namespace braid {

CudaDevice::CudaDevice(ProcessGroup &group, const Options &options)
    : options_(options), gpu_{group, options.rank, options.device},
      library_(std::make_unique<nccl::NcclMessages>(
          nccl::Library::load, options.rank,
          nccl::Patience{group.timeout(), [&group] { return group.isAborted(); }})),
      memory_(group), compute_(gpu_, streams_, progress_, tracer_, gemms_, options.isReproducible),
      messages_(gpu_, streams_, progress_, tracer_, library_) {}

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(ProcessGroup &group,
                                                       const Options &options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(group, options));
  BRAID_TRY(device->start());
  return device;
}

Status CudaDevice::start() {
  gpu_.driver = BRAID_TRY(loadDriver());
  BRAID_CUDA_RETURN_IF_ERROR(cudaSetDevice(options_.device));
  // Only rank 0 reports problems with the measurement file, because all ranks read the same file.
  const AlgorithmBy by = options_.isReproducible ? AlgorithmBy::Kind
                         : options_.isTuned      ? AlgorithmBy::Time
                                                 : AlgorithmBy::Guess;
  gemms_ = BRAID_TRY(Gemms::create(by, options_.rank == 0 ? warnOnStderr : nullptr));
  BRAID_CUDA_RETURN_IF_ERROR(cuda::loadKernels());
  BRAID_TRY(transfers_.start());
  BRAID_TRY(streams_.start());
  BRAID_TRY(graphs_.start());
  BRAID_TRY(progress_.start(memory_));
  return gemms_->reserveWorkspaces(1);
}

CudaDevice::~CudaDevice() {
  gpu_.enter();
  if (keepsMessages_)
    (void)library_.release();
  if (gpu_.isAbandoned) {
    (void)gemms_.release();
    memory_.abandon();
    return; // kernels may still be waiting, so their budget stays reserved
  }
  for (const std::unique_ptr<RegisteredPlan> &each : progress_.all())
    transfers_.releaseWaiting(*each);
}

Result<std::string> CudaDevice::uuid() const {
  cudaDeviceProp properties = {};
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, options_.device));
  return std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes));
}

/// Returns the UUID in nvidia-smi's format: "GPU-" followed by hexadecimal bytes, with dashes
/// before bytes 4, 6, 8 and 10.
std::string CudaDevice::identity() const {
  const Result<std::string> bytes = uuid();
  if (!bytes)
    return "";
  std::string text = "GPU-" + llvm::toHex(*bytes, /*LowerCase=*/true);
  for (size_t dash : {12, 17, 22, 27})
    text.insert(dash, "-");
  return text;
}

std::optional<int64_t> CudaDevice::freeBytes() {
  gpu_.enter();
  size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) != cudaSuccess)
    return std::nullopt;
  return static_cast<int64_t>(free);
}

std::string CudaDevice::description() const {
  cudaDeviceProp properties = {};
  int driver = 0, runtime = 0;
  cudaGetDeviceProperties(&properties, options_.device);
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return fmt::format("{}, driver for CUDA {}.{}, runtime {}.{}{}", properties.name, driver / 1000,
                     driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
                     options_.mayShare  ? ", possibly shared"
                     : options_.isTuned ? ""
                                        : ", not tuned");
}

void CudaDevice::closePeers() {
  gpu_.enter();
  if (!gpu_.isAbandoned)
    memory_.closePeers();
}

// -- While preparing. --

Result<void *> CudaDevice::allocate(ArenaKind kind, int64_t bytes) {
  gpu_.enter();
  return memory_.allocate(kind, bytes);
}

Status CudaDevice::reserveStreams(uint32_t count) {
  gpu_.enter();
  BRAID_TRY(streams_.reserve(count));
  BRAID_TRY(graphs_.reserveCapture());
  return gemms_->reserveWorkspaces(count);
}

Result<void *> CudaDevice::callerStream(uint32_t number) {
  gpu_.enter();
  return streams_.callerStream(number);
}

Status CudaDevice::checkAddress(const void *data) {
  gpu_.enter();
  cudaPointerAttributes attributes = {};
  BRAID_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, data));
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
    return badInput("expected memory on GPU {}, got host memory", options_.device);
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != options_.device)
    return badInput("expected memory on GPU {}, got memory on GPU {}", options_.device,
                    attributes.device);
  return Status::ok();
}

Result<uint32_t> CudaDevice::createEvents(uint32_t count) {
  gpu_.enter();
  return streams_.createEvents(count);
}

/// Enlarges workspaces, because a GEMM that has been tuned again may need a larger workspace.
Status CudaDevice::growWorkspaces() {
  for (const std::unique_ptr<RegisteredPlan> &each : progress_.all())
    if (!llvm::is_contained(releasedPlans_, each->plan))
      BRAID_TRY(each->growWorkspaces(memory_, *gemms_));
  return Status::ok();
}

/// The caller has tuned the Plan's GEMMs, so other Plans with these GEMMs may need more workspace.
Status CudaDevice::registerPlan(const Plan &plan, TransferMode mode) {
  BRAID_TRY(growWorkspaces());
  auto registered = std::make_unique<RegisteredPlan>(plan);
  BRAID_TRY(transfers_.planWaiting(mode, *registered));
  if (RegisteredPlan *known = progress_.findSame(*registered)) { // the Plan is prepared again
    ++known->users;
    if (registered->waiting.wanted() > known->waiting.wanted()) { // needs more multiprocessors now
      known->waiting = registered->waiting;
      transfers_.reserveWaiting(*known);
      known->limitsInGraphs.reset();
    }
    return Status::ok();
  }
  registered->names = tracer_.registerNames(plan);
  BRAID_TRY(registered->allocateForGraphs(memory_, *gemms_));
  transfers_.reserveWaiting(*registered);
  progress_.add(std::move(registered));
  return Status::ok();
}

/// Counts only the GEMM workspaces for graphs; other resources take up only a few cache lines.
int64_t CudaDevice::planBytes(const Plan &plan) {
  const RegisteredPlan *registered = progress_.find(&plan);
  return registered ? registered->workspaceBytes() : 0;
}

/// Releases a Plan's resources. No commands of the Plan may be in flight.
void CudaDevice::forgetPlan(const Plan *plan) {
  if (const std::unique_ptr<RegisteredPlan> gone = progress_.remove(plan)) {
    transfers_.releaseWaiting(*gone);
    gone->releaseForGraphs(memory_); // may block
  }
}

void CudaDevice::recycle() {
  gpu_.enter();
  graphs_.destroyReleased();
  for (const Plan *plan : releasedPlans_)
    forgetPlan(plan);
  releasedPlans_.clear();
  memory_.recycle();
}

// -- Issuing. --

/// Always uses a copy engine, because only copy engines access host memory.
void CudaDevice::copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) {
  if (gpu_.group.isAborted())
    return;
  const Issuing issuing(tracer_, stream, tag);
  transfers_.copyByEngine(stream, dst, src, bytes);
}

void CudaDevice::record(uint32_t stream, Tag tag, uint32_t event) {
  if (gpu_.group.isAborted())
    return;
  const Issuing issuing(tracer_, stream, tag);
  streams_.record(stream, event);
}

void CudaDevice::waitEvent(uint32_t stream, Tag tag, uint32_t event) {
  // An unrecorded event belongs to an earlier run or capture, which is complete because runs do not
  // overlap.
  if (gpu_.group.isAborted() || !streams_.isRecorded(event))
    return;
  const Issuing issuing(tracer_, stream, tag);
  streams_.wait(stream, event);
  if (streams_.isCapturing())
    graphs_.dropForkedFrom(streams_.of(stream));
}

// -- From the host. --

void CudaDevice::releaseWaits() {
  library_->abort();
  transfers_.releaseWaits();
}

/// Busy-waits at first, because a sleeping thread may wake 70 us late, which is a fifth of a 350 us
/// run. Sleeps during long runs, to leave the CPU to other threads.
void CudaDevice::pause() {
  constexpr std::chrono::milliseconds kBusy{100};
  if (gpu_.group.isAborted())
    releaseWaits();
  if (std::chrono::steady_clock::now() < waitingSince_ + kBusy)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

Status CudaDevice::synchronize() {
  gpu_.enter();
  if (streams_.isBusy(0) && !gpu_.group.isAborted())
    BRAID_TRY(graphs_.expectNoCapture());
  waitingSince_ = std::chrono::steady_clock::now();
  BRAID_TRY(gpu_.group.waitForDevice(
      options_.rank, [this] { return streams_.isDone(); },
      [this](std::chrono::milliseconds) { pause(); }));
  progress_.noteIdle();
  if (const Status status = progress_.checkOverlaps(); !status.isOk())
    gpu_.group.abort(status);
  return gpu_.group.failure();
}

bool CudaDevice::drain(std::chrono::milliseconds grace) {
  gpu_.enter();
  auto deadline = std::chrono::steady_clock::now() + grace;
  while (!streams_.isDone()) {
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
    pause();
  }
  return true;
}

// -- Messages. --

void CudaDevice::closeMessages() {
  gpu_.enter();
  if (gpu_.group.isAborted())
    library_->abort();
  if (!gpu_.isAbandoned)
    graphs_.destroyAll();
  if (graphs_.callersGraphs() > 0) // closing would wait until the graphs are destroyed
    library_->abort();
  if (Status status = library_->close(ProcessGroup::kGrace); !status.isOk()) {
    warnOnStderr(status.message());
    keepsMessages_ = true; // the watchdog may use it until the device is destroyed
  }
}

} // namespace braid
