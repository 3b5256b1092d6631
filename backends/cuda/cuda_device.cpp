//===- backends/cuda/cuda_device.cpp - one GPU ------------------------------------------------===//

#include "backends/cuda/cuda_device.h"

#include "backends/cuda/elements.h"
#include "backends/cuda/issuing.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace braid {
namespace {

constexpr uint32_t kStreamLimit = static_cast<uint32_t>(kMaxStreams);

} // namespace

// -- While preparing. --

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(ProcessGroup &group,
                                                       const Options &options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(group, options));
  if (Status status = device->start(); !status.isOk())
    return status;
  return device;
}

Status CudaDevice::start() {
  Result<const Driver *> driver = loadDriver();
  if (!driver)
    return driver.status();
  driver_ = *driver;
  domain_ = nvtxDomainCreateA("braid");
  BRAID_CUDA_RETURN_IF_ERROR(cudaSetDevice(options_.device));
  Result<std::unique_ptr<Products>> products = Products::create(options_.isTuned);
  if (!products)
    return products.status();
  products_ = std::move(*products);
  BRAID_CUDA_RETURN_IF_ERROR(cuda::loadKernels());
  if (Status status = startExchanges(); !status.isOk())
    return status;
  Result<void *> steps = memory_.allocateReports(kStreamLimit * sizeof(Step));
  if (!steps)
    return steps.status();
  steps_ = static_cast<Step *>(*steps);
  issued_ = std::make_unique<Issued[]>(kStreamLimit);
  streams_.push_back(options_.callerStream);
  if (!options_.callerStream) {
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&streams_[0], cudaStreamNonBlocking));
    ownsCallerStream_ = true;
  }
  isDirty_.push_back(false);
  return products_->reserveWorkspaces(1);
}

CudaDevice::~CudaDevice() {
  enter();
  if (isAbandoned_) {
    (void)products_.release();
    memory_.abandon();
    return;
  }
  nvtxDomainDestroy(domain_);
  cudaFree(exchangeCounters_);
  for (cudaGraphExec_t graph : graphs_)
    cudaGraphExecDestroy(graph);
  for (cudaEvent_t event : events_)
    cudaEventDestroy(event);
  for (size_t i = ownsCallerStream_ ? 0 : 1; i < streams_.size(); ++i)
    cudaStreamDestroy(streams_[i]);
}

std::string CudaDevice::description() const {
  cudaDeviceProp properties = {};
  int driver = 0, runtime = 0;
  cudaGetDeviceProperties(&properties, options_.device);
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return fmt::format("{}, driver for CUDA {}.{}, runtime {}.{}", properties.name, driver / 1000,
                     driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

Result<void *> CudaDevice::openMemory(int64_t peer, const std::string &handle) {
  enter();
  return memory_.open(peer, handle);
}

void CudaDevice::closePeers() {
  enter();
  if (!isAbandoned_)
    memory_.closePeers();
}

void CudaDevice::enter() const {
  thread_local int current = -1;
  if (current == options_.device)
    return;
  cudaSetDevice(options_.device);
  current = options_.device;
}

Result<std::string> CudaDevice::exportMemory(void *base) {
  enter();
  return memory_.exportMemory(base);
}

Result<void *> CudaDevice::allocate(ArenaKind kind, int64_t bytes) {
  enter();
  if (kind == ArenaKind::Words && hasWordsOnDevice())
    kind = ArenaKind::Symmetric;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(streams_[0], &capture));
  if (capture != cudaStreamCaptureStatusNone)
    return Status(StatusCode::BadInput, "the caller's stream is being captured, but the program is "
                                        "not prepared: call prepare() before the capture begins");
  return memory_.allocate(kind, bytes);
}

Status CudaDevice::reserveStreams(uint32_t count) {
  enter();
  // Before whatever else the process has on its GPU: peers wait for what these streams do.
  int least = 0, greatest = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  while (streams_.size() < count) {
    cudaStream_t stream = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    streams_.push_back(stream);
    isDirty_.push_back(false);
  }
  return products_->reserveWorkspaces(count);
}

Result<uint32_t> CudaDevice::createEvents(uint32_t count) {
  enter();
  uint32_t first = static_cast<uint32_t>(events_.size());
  for (uint32_t i = 0; i < count; ++i) {
    cudaEvent_t event = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    events_.push_back(event);
    isRecorded_.push_back(false);
  }
  return first;
}

Result<std::string> CudaDevice::tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) {
  enter();
  return products_->tune(shape, atMost);
}

Status CudaDevice::foresee(const PlanMatmul &shape) {
  enter();
  return products_->foresee(shape);
}

Status CudaDevice::adopt(const PlanMatmul &shape, const std::string &choice) {
  enter();
  return products_->adopt(shape, choice);
}

Status CudaDevice::warm(const PlanMatmul &shape) {
  enter();
  return products_->warm(shape);
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
  group_.abort(Status(StatusCode::PeerFailed,
                      fmt::format("rank {}: {} from {}", options_.rank, name, call)));
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
  check(cudaEventRecord(command.begin, streams_[stream]), "cudaEventRecord");
  traced_.push_back(command);
  return command.end;
}

void CudaDevice::copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) {
  if (bytes != 0)
    chain(stream, tag, ChainStep{CommandKind::Copy, tag.command, nullptr, dst, src, bytes}, true);
}

void CudaDevice::signal(uint32_t stream, Tag tag, void *word, uint32_t) {
  chain(stream, tag, ChainStep{CommandKind::Signal, tag.command, word, nullptr, nullptr, 0}, true);
}

void CudaDevice::await(uint32_t stream, Tag tag, const void *word, uint32_t) {
  chain(stream, tag,
        ChainStep{CommandKind::Await, tag.command, const_cast<void *>(word), nullptr, nullptr, 0},
        true);
}

void CudaDevice::matmul(uint32_t stream, Tag tag, const MatmulArgs &args) {
  if (group_.isAborted() || args.m == 0 || args.n == 0)
    return;
  Issuing issuing(*this, stream, tag);
  if (Status status = products_->multiply(streams_[stream], stream, args); !status.isOk())
    group_.abort(status.annotated(fmt::format("rank {}", options_.rank)));
}

void CudaDevice::add(uint32_t stream, Tag tag, DType dtype, void *dst, const void *src,
                     int64_t bytes) {
  if (group_.isAborted())
    return;
  Issuing issuing(*this, stream, tag);
  cuda::launchAdd(streams_[stream], elementOf(dtype), dst, src, bytes / sizeOf(dtype));
  check(cudaGetLastError(), "launchAdd");
}

void CudaDevice::record(uint32_t stream, Tag tag, uint32_t event) {
  if (group_.isAborted())
    return;
  Issuing issuing(*this, stream, tag);
  isRecorded_[event] = true;
  check(cudaEventRecord(events_[event], streams_[stream]), "cudaEventRecord");
}

void CudaDevice::waitEvent(uint32_t stream, Tag tag, uint32_t event) {
  // What an earlier run or capture recorded is over before this run begins: runs follow one
  // another.
  if (group_.isAborted() || !isRecorded_[event])
    return;
  Issuing issuing(*this, stream, tag);
  check(cudaStreamWaitEvent(streams_[stream], events_[event], 0), "cudaStreamWaitEvent");
}

// -- Graphs. --

Status CudaDevice::beginCapture() {
  enter();
  isRecorded_.assign(isRecorded_.size(), false);
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal));
  isCapturing_ = true;
  return Status::ok();
}

Result<uint32_t> CudaDevice::endCapture() {
  enter();
  isCapturing_ = false;
  isRecorded_.assign(isRecorded_.size(), false);
  cudaGraph_t graph = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamEndCapture(streams_[0], &graph));
  cudaGraphExec_t executable = nullptr;
  cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (code != cudaSuccess)
    return cudaFailure(code, "cudaGraphInstantiate");
  graphs_.push_back(executable);
  BRAID_CUDA_RETURN_IF_ERROR(cudaGraphUpload(executable, streams_[0]));
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(streams_[0]));
  return static_cast<uint32_t>(graphs_.size() - 1);
}

void CudaDevice::launch(uint32_t graph, Tag tag) {
  if (group_.isAborted())
    return;
  enter();
  isDirty_[0] = true;
  note(tag);
  for (size_t stream = 0; stream < streams_.size(); ++stream)
    issued_[stream].isReplay.store(true, std::memory_order_relaxed);
  check(cudaGraphLaunch(graphs_[graph], streams_[0]), "cudaGraphLaunch");
}

// -- From the host. --

void CudaDevice::releaseWaits() {
  std::atomic_ref<uint32_t>(*released_).store(1, std::memory_order_relaxed);
  memory_.fillWords(kReleased);
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

/// Short runs are over in microseconds, long ones need no busy host.
void CudaDevice::pause() {
  constexpr uint32_t kBusyPolls = 200;
  if (group_.isAborted())
    releaseWaits();
  if (++idlePolls_ < kBusyPolls)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

Status CudaDevice::synchronize() {
  enter();
  idlePolls_ = 0;
  Status status = group_.waitForDevice(
      options_.rank, {[this] { return isDone(); }, [this](std::chrono::milliseconds) { pause(); }});
  if (status.isOk())
    isBusy_.store(false, std::memory_order_relaxed);
  return status;
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

// -- Progress. --

Status CudaDevice::introduce(const Plan &plan) {
  auto timetable = std::make_unique<Timetable>();
  timetable->plan = &plan;
  timetable->number = static_cast<uint32_t>(timetables_.size()) % kPlans;
  timetable->commands.resize(plan.streams.size());
  for (uint32_t i = 0; i < plan.commands.size(); ++i) {
    CommandKind kind = plan.commands[i].kind;
    if (kind == CommandKind::Signal || kind == CommandKind::Await)
      timetable->commands[plan.commands[i].stream].push_back(i);
  }
  if (Status status = planExchanges(plan, *timetable); !status.isOk())
    return status;
  for (uint32_t i = 0; i < plan.origins.size(); ++i)
    timetable->names.push_back(nvtxDomainRegisterStringA(domain_, describeOrigin(plan, i).c_str()));
  timetables_.push_back(std::move(timetable));
  current_.store(timetables_.back().get(), std::memory_order_release);
  return Status::ok();
}

/// Of a Plan that was introduced. What belongs to none (uploads) needs no kernel, so any will do.
const CudaDevice::Timetable &CudaDevice::timetableOf(const Plan *plan) const {
  static const Timetable kUnknown = {};
  for (const std::unique_ptr<Timetable> &each : timetables_)
    if (each->plan == plan)
      return *each;
  return kUnknown;
}

/// Remembers what is being issued, for the watchdog.
void CudaDevice::note(Tag tag) {
  const Timetable *current = current_.load(std::memory_order_relaxed);
  if (!current || current->plan != tag.plan)
    for (const std::unique_ptr<Timetable> &each : timetables_)
      if (each->plan == tag.plan)
        current_.store(each.get(), std::memory_order_release);
  run_.store(tag.run, std::memory_order_relaxed);
  isBusy_.store(true, std::memory_order_relaxed);
}

/// What the GPU will write when this signal or await is over.
uint32_t CudaDevice::number(uint32_t stream, Tag tag) {
  if (isCapturing_)
    return kReplayed | timetableOf(tag.plan).number << kPlanShift |
           std::min(tag.command + 1, kCommands);
  note(tag);
  Issued &issued = issued_[stream];
  issued.isReplay.store(false, std::memory_order_relaxed);
  const uint32_t next = (issued.count.load(std::memory_order_relaxed) + 1) & ~kReplayed;
  issued.commands[next % Issued::kKept].store(uint64_t(tag.run) << 32 | tag.command,
                                              std::memory_order_relaxed);
  issued.count.store(next, std::memory_order_release);
  return next;
}

uint64_t CudaDevice::nextStep(const Timetable &timetable, uint32_t stream, uint32_t done) const {
  const Issued &issued = issued_[stream];
  if (!issued.isReplay.load(std::memory_order_relaxed)) {
    const uint32_t count = issued.count.load(std::memory_order_acquire);
    // After a replay nothing tells how many of the eager ones before it are over: all.
    const uint32_t next = done & kReplayed ? count : done + 1;
    bool isKept = count - next < Issued::kKept;
    return next == 0 || next > count || !isKept
               ? kNothing
               : issued.commands[next % Issued::kKept].load(std::memory_order_relaxed);
  }
  if (stream >= timetable.commands.size() || timetable.commands[stream].empty())
    return kNothing;
  // The last step of a run is followed by the first one of the next.
  const std::vector<uint32_t> &commands = timetable.commands[stream];
  const uint32_t after = replayedCommand(timetable, done);
  auto next = std::lower_bound(commands.begin(), commands.end(), after);
  return uint64_t(run_.load(std::memory_order_relaxed)) << 32 |
         (next == commands.end() ? commands.front() : *next);
}

uint32_t CudaDevice::replayedCommand(const Timetable &timetable, uint32_t done) {
  const bool isOurs = done & kReplayed && (done >> kPlanShift) % kPlans == timetable.number;
  return isOurs ? done & kCommands : 0;
}

uint64_t CudaDevice::lastStep(const Timetable &timetable, uint32_t stream, uint32_t done) const {
  if (done == 0)
    return kNothing;
  if (!(done & kReplayed))
    return issued_[stream].commands[done % Issued::kKept].load(std::memory_order_relaxed);
  const uint32_t command = replayedCommand(timetable, done);
  return command == 0 ? kNothing
                      : uint64_t(run_.load(std::memory_order_relaxed)) << 32 | (command - 1);
}

void CudaDevice::publish() {
  const Timetable *timetable = current_.load(std::memory_order_acquire);
  if (!timetable)
    return;
  RankSlot &slot = group_.slot();
  const bool isBusy = isBusy_.load(std::memory_order_relaxed);
  uint32_t count = std::min<uint32_t>(kQueueSlots, timetable->commands.size());
  slot.queues.store(count, std::memory_order_relaxed);
  slot.runs.store(run_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  for (uint32_t stream = 0; stream < count; ++stream) {
    QueueSlot &queue = slot.queue[stream];
    uint32_t done = std::atomic_ref<uint32_t>(steps_[stream].done).load(std::memory_order_relaxed);
    if (done != seen_[stream]) {
      seen_[stream] = done;
      queue.completed.fetch_add(1, std::memory_order_relaxed);
      queue.lastDone.store(lastStep(*timetable, stream, done), std::memory_order_relaxed);
      queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
    }
    const uint64_t next = isBusy ? nextStep(*timetable, stream, done) : kNothing;
    const bool isAwait = next != kNothing && isAwaitOf(*timetable, next);
    if (queue.current.exchange(next, std::memory_order_relaxed) != next)
      queue.sinceNs.store(monotonicNs(), std::memory_order_relaxed);
    queue.isWaiting.store(isAwait, std::memory_order_relaxed);
    queue.wantedValue.store(isAwait, std::memory_order_relaxed);
  }
}

bool CudaDevice::isAwaitOf(const Timetable &timetable, uint64_t step) {
  const uint32_t command = static_cast<uint32_t>(step);
  return command < timetable.plan->commands.size() &&
         timetable.plan->commands[command].kind == CommandKind::Await;
}

std::vector<PendingWait> CudaDevice::pending() {
  std::vector<PendingWait> waits;
  const Timetable *timetable = current_.load(std::memory_order_acquire);
  if (!timetable || isDone())
    return waits;
  for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
    uint32_t done = std::atomic_ref<uint32_t>(steps_[stream].done).load(std::memory_order_relaxed);
    uint64_t next = nextStep(*timetable, stream, done);
    if (isDirty_[stream] && next != kNothing && isAwaitOf(*timetable, next))
      waits.push_back(
          {{timetable->plan, static_cast<uint32_t>(next), static_cast<uint32_t>(next >> 32)},
           stream});
  }
  return waits;
}

// -- Tracing. --

void CudaDevice::startTrace() {
  enter();
  check(cudaEventCreate(&traceStart_), "cudaEventCreate");
  check(cudaEventRecord(traceStart_, streams_[0]), "cudaEventRecord");
  check(cudaEventSynchronize(traceStart_), "cudaEventSynchronize");
  traceStartNs_ = static_cast<int64_t>(monotonicNs());
  isTracing_ = true;
}

std::vector<Span> CudaDevice::takeTrace() {
  enter();
  std::vector<Span> spans;
  auto since = [&](cudaEvent_t event) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, traceStart_, event), "cudaEventElapsedTime");
    return traceStartNs_ + static_cast<int64_t>(double(milliseconds) * 1e6);
  };
  for (TracedCommand &command : traced_) {
    spans.push_back({command.tag, command.stream, since(command.begin), since(command.end)});
    cudaEventDestroy(command.begin);
    cudaEventDestroy(command.end);
  }
  traced_.clear();
  return spans;
}

} // namespace braid
