//===- backends/cuda/cuda_device.cpp - one GPU ------------------------------------------------===//

#include "backends/cuda/cuda_device.h"

#include "backends/cuda/elements.h"
#include "backends/cuda/issuing.h"
#include "ir/failure.h"
#include "runtime/warn.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace braid {

// -- While preparing. --

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(ProcessGroup &group,
                                                       const Options &options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(group, options));
  BRAID_TRY(device->start());
  return device;
}

Status CudaDevice::start() {
  driver_ = BRAID_TRY(loadDriver());
  domain_ = nvtxDomainCreateA("braid");
  BRAID_CUDA_RETURN_IF_ERROR(cudaSetDevice(options_.device));
  // All ranks read the same file, which rank 0 replaces: it speaks for all of them.
  const AlgorithmBy by = options_.isReproducible ? AlgorithmBy::Kind
                         : options_.isTuned      ? AlgorithmBy::Time
                                                 : AlgorithmBy::Guess;
  gemms_ = BRAID_TRY(Gemms::create(by, options_.rank == 0 ? warnOnStderr : nullptr));
  BRAID_CUDA_RETURN_IF_ERROR(cuda::loadKernels());
  BRAID_TRY(startCopyAndSignal());
  words_ = static_cast<StepWord *>(
      BRAID_TRY(memory_.allocateReports(kMaxPlanStreams * sizeof(StepWord))));
  issued_ = std::make_unique<IssuedSteps[]>(kMaxPlanStreams);
  streams_.push_back(options_.callerStream);
  if (!options_.callerStream) {
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&streams_[0], cudaStreamNonBlocking));
    ownsCallerStream_ = true;
  }
  callersStreams_.push_back(streams_[0]);
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&handover_, cudaEventDisableTiming));
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&recordingStream_, cudaStreamNonBlocking));
  reports_ = BRAID_TRY(createStream()); // in no queue of the caller's streams, for its priority
  isDirty_.push_back(false);
  if (options_.makeMessages)
    messages_ = options_.makeMessages(group_);
  return gemms_->reserveWorkspaces(1);
}

CudaDevice::~CudaDevice() {
  enter();
  if (keepsMessages_)
    (void)messages_.release();
  if (isAbandoned_) {
    (void)gemms_.release();
    memory_.abandon();
    return; // its kernels may still wait, so their budget stays reserved, too
  }
  for (const std::unique_ptr<Timetable> &each : timetables_)
    waitingBudget().release(each.get());
  nvtxDomainDestroy(domain_);
  cudaFree(copyAndSignalCounters_);
  destroyGraphs();
  for (cudaEvent_t event : events_)
    cudaEventDestroy(event);
  for (cudaEvent_t mark : clock_)
    if (mark)
      cudaEventDestroy(mark);
  for (cudaEvent_t start : traceStarts_)
    if (start)
      cudaEventDestroy(start);
  for (const Mark &mark : marks_)
    cudaEventDestroy(mark.event);
  for (cudaEvent_t event : freeMarks_)
    cudaEventDestroy(event);
  if (handover_)
    cudaEventDestroy(handover_);
  for (size_t i = 1; i < streams_.size(); ++i)
    cudaStreamDestroy(streams_[i]);
  for (const std::unique_ptr<Capture> &capture : captures_)
    for (size_t i = 1; i < capture->streams.size(); ++i)
      cudaStreamDestroy(capture->streams[i]);
  if (recordingStream_)
    cudaStreamDestroy(recordingStream_);
  if (reports_) {
    cudaStreamSynchronize(reports_); // it writes to memory that goes
    cudaStreamDestroy(reports_);
  }
  for (size_t i = ownsCallerStream_ ? 0 : 1; i < callersStreams_.size(); ++i)
    cudaStreamDestroy(callersStreams_[i]);
}

Result<std::string> CudaDevice::uuid() const {
  cudaDeviceProp properties = {};
  BRAID_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, options_.device));
  return std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes));
}

/// As nvidia-smi has it: "GPU-" and the bytes in hexadecimal, with dashes before bytes 4, 6, 8, 10.
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
  enter();
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
                     options_.mayShare  ? ", perhaps shared"
                     : options_.isTuned ? ""
                                        : ", not tuned");
}

void CudaDevice::closePeers() {
  enter();
  if (!isAbandoned_)
    memory_.closePeers();
}

/// The thread is the caller's, who may have chosen another device since.
void CudaDevice::enter() const {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current != options_.device)
    cudaSetDevice(options_.device);
}

Status CudaDevice::reserveStreams(uint32_t count) {
  enter();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(streams_[0], &capture));
  if (capture != cudaStreamCaptureStatusNone)
    return badInput("the caller's stream is being captured, but the program is not prepared: call "
                    "prepare() before the capture begins");
  BRAID_TRY(growStreams(streams_, count));
  isDirty_.resize(streams_.size(), false);
  BRAID_TRY(reserveCapture());
  return gemms_->reserveWorkspaces(count);
}

Result<void *> CudaDevice::callerStream(uint32_t number) {
  enter();
  while (callersStreams_.size() <= number) {
    cudaStream_t stream = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    callersStreams_.push_back(stream);
  }
  return callersStreams_[number];
}

Status CudaDevice::checkAddress(const void *data) {
  enter();
  cudaPointerAttributes attributes = {};
  BRAID_CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, data));
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
    return badInput("expected memory of GPU {}, got memory of the host", options_.device);
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != options_.device)
    return badInput("expected memory of GPU {}, got memory of GPU {}", options_.device,
                    attributes.device);
  return Status::ok();
}

Result<uint32_t> CudaDevice::createEvents(uint32_t count) {
  enter();
  if (std::optional<uint32_t> first = ranges_.reuse(count)) {
    std::fill_n(isRecorded_.begin() + *first, count, false);
    return *first;
  }
  uint32_t first = static_cast<uint32_t>(events_.size());
  ranges_.add(first, count);
  for (uint32_t i = 0; i < count; ++i) {
    cudaEvent_t event = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    events_.push_back(event);
    isRecorded_.push_back(false);
  }
  return first;
}

// -- Issuing. --

void CudaDevice::check(cudaError_t code, const char *call) {
  if (code != cudaSuccess)
    group_.abort(cudaFailure(code, call).annotated(fmt::format("rank {}", options_.rank)));
}

void CudaDevice::check(CUresult code, const char *call) {
  if (code == CUDA_SUCCESS)
    return;
  const char *name = "unknown";
  driver_->getErrorName(code, &name);
  group_.abort(peerFailed("rank {}: {} from {}", options_.rank, name, call));
}

void CudaDevice::pushRange(Tag tag) {
  nvtxEventAttributes_t range = {};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  const Timetable *timetable = current_.load(std::memory_order_relaxed);
  if (tag.plan && timetable && timetable->plan == tag.plan && tag.command != kNone) {
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = timetable->names[tag.plan->commands[tag.command].origin];
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
    range.payload.uiValue = tag.run;
  }
  nvtxDomainRangePushEx(domain_, &range);
}

cudaEvent_t CudaDevice::beginSpan(uint32_t stream, Tag tag) {
  TracedCommand command{tag, stream, nullptr, nullptr};
  check(cudaEventCreate(&command.begin), "cudaEventCreate");
  check(cudaEventCreate(&command.end), "cudaEventCreate");
  check(cudaEventRecord(command.begin, streamOf(stream)), "cudaEventRecord");
  traced_.push_back(command);
  return command.end;
}

/// The host's memory is reached by engines only.
void CudaDevice::copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) {
  if (group_.isAborted())
    return;
  Issuing issuing(*this, stream, tag);
  copyByEngine(stream, dst, src, bytes);
}

void CudaDevice::matmul(uint32_t stream, Tag tag, const MatmulArgs &args) {
  if (group_.isAborted() || args.m == 0 || args.n == 0)
    return;
  Issuing issuing(*this, stream, tag);
  const Workspace workspace =
      capture_ ? timetableOf(tag.plan).ofGraphs.workspaces[stream] : gemms_->workspace(stream);
  if (Status status = gemms_->multiply(streamOf(stream), workspace, args); !status.isOk())
    group_.abort(status.annotated(fmt::format("rank {}", options_.rank)));
}

void CudaDevice::sum(uint32_t stream, Tag tag, const SumArgs &args) {
  if (group_.isAborted() || args.elements == 0)
    return;
  Issuing issuing(*this, stream, tag);
  launchSum(stream, args);
}

namespace {

/// The element type of operands that are not accumulators: the one of 16 bits, if there is one.
DType narrowest(const PointwiseArgs &args) {
  DType dtype = args.dtype;
  const auto take = [&](const PointwiseArgs::Operand &operand) {
    if (operand.data && sizeOf(operand.dtype) < sizeOf(dtype))
      dtype = operand.dtype;
  };
  take(args.first);
  for (uint32_t i = 0; i < args.count; ++i)
    take(args.steps[i].operand);
  return dtype;
}

} // namespace

void CudaDevice::pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) {
  if (group_.isAborted())
    return;
  const DType narrow = narrowest(args);
  const auto operandOf = [&](const PointwiseArgs::Operand &operand) {
    return cuda::Pointwise::Operand{operand.data && operand.dtype != narrow, operand.data};
  };
  cuda::Pointwise work{elementOf(narrow),     args.elements, operandOf({args.dtype, args.dst}),
                       operandOf(args.first), args.count,    {}};
  for (uint32_t i = 0; i < args.count; ++i)
    work.steps[i] = {args.steps[i].function, operandOf(args.steps[i].operand)};
  Issuing issuing(*this, stream, tag);
  cuda::launchPointwise(streamOf(stream), work);
  check(cudaGetLastError(), "launchPointwise");
}

void CudaDevice::record(uint32_t stream, Tag tag, uint32_t event) {
  if (group_.isAborted())
    return;
  Issuing issuing(*this, stream, tag);
  isRecorded_[event] = true;
  check(cudaEventRecord(events_[event], streamOf(stream)), "cudaEventRecord");
}

void CudaDevice::waitEvent(uint32_t stream, Tag tag, uint32_t event) {
  // An event of an earlier run or capture has passed before this run begins: runs follow one
  // another.
  if (group_.isAborted() || !isRecorded_[event])
    return;
  Issuing issuing(*this, stream, tag);
  check(cudaStreamWaitEvent(streamOf(stream), events_[event], 0), "cudaStreamWaitEvent");
  if (capture_)
    dropForkedFrom(streamOf(stream));
}

void CudaDevice::markClock(size_t mark) {
  if (group_.isAborted())
    return;
  enter();
  isDirty_[0] = true;
  if (!clock_[mark])
    check(cudaEventCreate(&clock_[mark]), "cudaEventCreate");
  check(cudaEventRecord(clock_[mark], streams_[0]), "cudaEventRecord");
}

double CudaDevice::clockedUs() {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, clock_[0], clock_[1]), "cudaEventElapsedTime");
  return 1e3 * double(milliseconds);
}

namespace {

/// Lets this thread make and query events while a caller captures some other stream.
class BesideCaptures {
public:
  BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures &) = delete;

private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

} // namespace

bool CudaDevice::mark(int64_t number) {
  if (capture_ || group_.isAborted())
    return false;
  enter();
  const BesideCaptures beside;
  if (freeMarks_.empty()) {
    freeMarks_.push_back(nullptr);
    check(cudaEventCreateWithFlags(&freeMarks_.back(), cudaEventDisableTiming), "cudaEventCreate");
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(streams_[0], &capture);
  if (code == cudaErrorStreamCaptureImplicit) { // CUDA's default stream, in the capture of another
    (void)cudaGetLastError();
    return false;
  }
  check(code, "cudaStreamIsCapturing");
  if (capture != cudaStreamCaptureStatusNone || group_.isAborted())
    return false;
  check(cudaEventRecord(freeMarks_.back(), streams_[0]), "cudaEventRecord");
  marks_.push_back({number, freeMarks_.back()});
  freeMarks_.pop_back();
  return true;
}

int64_t CudaDevice::passedMarks() {
  enter();
  const BesideCaptures beside;
  while (!marks_.empty()) {
    const cudaError_t code = cudaEventQuery(marks_.front().event);
    if (code == cudaErrorNotReady)
      break;
    check(code, "cudaEventQuery");
    if (code != cudaSuccess)
      break;
    passedMark_ = marks_.front().number;
    freeMarks_.push_back(marks_.front().event);
    marks_.pop_front();
  }
  return passedMark_;
}

/// CUDA frees one that still runs when it has ended.
void CudaDevice::destroyReleasedGraphs() {
  for (uint32_t graph : releasedGraphs_) {
    check(cudaGraphExecDestroy(graphs_[graph]), "cudaGraphExecDestroy");
    graphs_[graph] = nullptr;
    freeGraphs_.push_back(graph);
  }
  releasedGraphs_.clear();
}

void CudaDevice::recycle() {
  enter();
  destroyReleasedGraphs();
  for (const Plan *plan : releasedPlans_)
    forgetPlan(plan);
  releasedPlans_.clear();
  memory_.recycle();
}

// -- From the host. --

void CudaDevice::destroyGraphs() {
  for (cudaGraphExec_t &graph : graphs_)
    if (cudaGraphExec_t gone = std::exchange(graph, nullptr))
      cudaGraphExecDestroy(gone);
}

void CudaDevice::releaseWaits() {
  if (messages_)
    messages_->abort();
  std::atomic_ref<uint32_t>(*released_).store(1, std::memory_order_relaxed);
  memory_.fillFlags(cuda::kReleasedFlag);
}

/// True also when the GPU is lost: nothing will run any more.
bool CudaDevice::isDone() {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!isDirty_[i])
      continue;
    cudaError_t code = cudaStreamQuery(streams_[i]);
    if (code == cudaErrorNotReady)
      return false;
    check(code, "cudaStreamQuery");
    isDirty_[i] = false;
  }
  return true;
}

/// A thread that sleeps wakes up to 70 us late. That is nothing to a long run, which needs no busy
/// host, but a fifth of a run of 350 us.
void CudaDevice::pause() {
  constexpr std::chrono::milliseconds kBusy{100};
  if (group_.isAborted())
    releaseWaits();
  if (std::chrono::steady_clock::now() < waitingSince_ + kBusy)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

Status CudaDevice::synchronize() {
  enter();
  if (isDirty_[0] && !group_.isAborted())
    BRAID_TRY(expectNoCapture());
  waitingSince_ = std::chrono::steady_clock::now();
  Status status = group_.waitForDevice(
      options_.rank, {[this] { return isDone(); }, [this](std::chrono::milliseconds) { pause(); }});
  if (!status.isOk())
    return status;
  for (const std::unique_ptr<Timetable> &each : timetables_)
    each->isLaunched.store(false, std::memory_order_relaxed);
  if (status = checkOverlaps(); !status.isOk())
    group_.abort(status);
  return group_.failure();
}

bool CudaDevice::drain(std::chrono::milliseconds grace) {
  enter();
  auto deadline = std::chrono::steady_clock::now() + grace;
  while (!isDone()) {
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
    pause();
  }
  return true;
}

// -- Tracing. --

void CudaDevice::startTrace() {
  enter();
  for (cudaEvent_t &event : traceStarts_)
    if (!event)
      check(cudaEventCreate(&event), "cudaEventCreate");
  constexpr int kAttempts = 8; // of some microseconds each
  traceStart_ = closestMoment(
      kAttempts,
      [this](size_t i) { check(cudaEventRecord(traceStarts_[i], streams_[0]), "cudaEventRecord"); },
      [this](size_t i) {
        const cudaError_t code = cudaEventQuery(traceStarts_[i]);
        if (code != cudaErrorNotReady)
          check(code, "cudaEventQuery");
        return code != cudaErrorNotReady || group_.isAborted();
      },
      [] { return static_cast<int64_t>(monotonicNs()); });
  isTracing_ = true;
}

std::vector<Span> CudaDevice::takeTrace() {
  enter();
  std::vector<Span> spans;
  const auto elapsed = [this](cudaEvent_t from, cudaEvent_t to) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
    return milliseconds;
  };
  EventClock<cudaEvent_t> clock(traceStarts_[traceStart_.event], traceStart_.ns, elapsed);
  for (const TracedCommand &command : traced_) {
    const int64_t begin = clock.nsOf(command.begin);
    spans.push_back({command.tag, command.stream, begin, clock.nsOf(command.end)});
  }
  for (const TracedCommand &command : traced_) {
    cudaEventDestroy(command.begin);
    cudaEventDestroy(command.end);
  }
  traced_.clear();
  return spans;
}

} // namespace braid
