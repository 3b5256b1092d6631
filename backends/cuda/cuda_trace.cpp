//===- backends/cuda/cuda_trace.cpp - timing of a GPU's commands ------------------------------===//

#include "backends/cuda/cuda_trace.h"

#include <cmath>

namespace braid {

// -- Spans. --

CudaTracer::~CudaTracer() {
  if (gpu_.isAbandoned)
    return;
  nvtxDomainDestroy(domain_);
  if (start_)
    cudaEventDestroy(start_);
}

std::vector<nvtxStringHandle_t> CudaTracer::registerNames(const Plan &plan) const {
  std::vector<nvtxStringHandle_t> names;
  for (uint32_t i = 0; i < plan.origins.size(); ++i)
    names.push_back(nvtxDomainRegisterStringA(domain_, describeOrigin(plan, i).c_str()));
  return names;
}

void CudaTracer::pushRange(Tag tag) const {
  nvtxEventAttributes_t range = {};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  const RegisteredPlan *current = progress_.current();
  if (tag.plan && current && current->plan == tag.plan && tag.command != kNone) {
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = current->names[tag.plan->commands[tag.command].origin];
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
    range.payload.uiValue = tag.run;
  }
  nvtxDomainRangePushEx(domain_, &range);
}

cudaEvent_t CudaTracer::beginSpan(uint32_t stream, Tag tag) {
  TracedCommand command{tag, stream, nullptr, nullptr};
  gpu_.check(cudaEventCreate(&command.begin), "cudaEventCreate");
  gpu_.check(cudaEventCreate(&command.end), "cudaEventCreate");
  gpu_.check(cudaEventRecord(command.begin, streams_.of(stream)), "cudaEventRecord");
  traced_.push_back(command);
  return command.end;
}

Issuing::Issuing(CudaTracer &tracer, uint32_t stream, Tag tag) : tracer_(tracer), stream_(stream) {
  tracer.gpu_.enter();
  if (!tracer.streams_.isCapturing())
    tracer.streams_.markBusy(stream);
  tracer.pushRange(tag);
  if (tracer.isTracing())
    end_ = tracer.beginSpan(stream, tag);
}

Issuing::~Issuing() {
  if (end_)
    tracer_.gpu_.check(cudaEventRecord(end_, tracer_.streams_.of(stream_)), "cudaEventRecord");
  nvtxDomainRangePop(tracer_.domain_);
}

/// CUDA does not report the completion time of an event on the host's clock, so the clock is read
/// just before the event is recorded and just after it has completed. Retries if the two readings
/// are far apart, for example because of earlier work on the stream.
void CudaTracer::startTrace() {
  constexpr int64_t kFarApartNs = 20000;
  gpu_.enter();
  if (!start_)
    gpu_.check(cudaEventCreate(&start_), "cudaEventCreate");
  int64_t gapNs = kFarApartNs;
  for (int attempts = 8; attempts > 0 && gapNs >= kFarApartNs; --attempts) {
    const auto before = static_cast<int64_t>(monotonicNs());
    gpu_.check(cudaEventRecord(start_, streams_.first()), "cudaEventRecord");
    while (cudaEventQuery(start_) == cudaErrorNotReady && !gpu_.group.isAborted()) {
    }
    gapNs = static_cast<int64_t>(monotonicNs()) - before;
    startNs_ = before + gapNs / 2;
  }
  isTracing_ = true;
}

/// CUDA reports elapsed times as a float, whose resolution is only 1 us after 10 s.
std::vector<Span> CudaTracer::takeTrace() {
  gpu_.enter();
  const auto nsOf = [this](cudaEvent_t event) {
    float milliseconds = 0;
    gpu_.check(cudaEventElapsedTime(&milliseconds, start_, event), "cudaEventElapsedTime");
    return startNs_ + std::llround(double(milliseconds) * 1e6);
  };
  std::vector<Span> spans;
  for (const TracedCommand &command : traced_) {
    spans.push_back({command.tag, command.stream, nsOf(command.begin), nsOf(command.end)});
    cudaEventDestroy(command.begin);
    cudaEventDestroy(command.end);
  }
  traced_.clear();
  return spans;
}

// -- The stopwatch. --

CudaStopwatch::~CudaStopwatch() {
  for (cudaEvent_t mark : marks_)
    if (mark && !gpu_.isAbandoned)
      cudaEventDestroy(mark);
}

void CudaStopwatch::mark(size_t number) {
  if (gpu_.group.isAborted())
    return;
  gpu_.enter();
  streams_.markBusy(0);
  if (!marks_[number])
    gpu_.check(cudaEventCreate(&marks_[number]), "cudaEventCreate");
  gpu_.check(cudaEventRecord(marks_[number], streams_.first()), "cudaEventRecord");
}

double CudaStopwatch::clockedUs() {
  float milliseconds = 0;
  gpu_.check(cudaEventElapsedTime(&milliseconds, marks_[0], marks_[1]), "cudaEventElapsedTime");
  return 1e3 * double(milliseconds);
}

// -- Marks. --

CudaMarks::~CudaMarks() {
  if (gpu_.isAbandoned)
    return;
  for (const Mark &mark : marks_)
    cudaEventDestroy(mark.event);
  for (cudaEvent_t event : free_)
    cudaEventDestroy(event);
}

bool CudaMarks::mark(int64_t number) {
  if (streams_.isCapturing() || gpu_.group.isAborted())
    return false;
  gpu_.enter();
  const RelaxedCapture relaxed;
  if (free_.empty()) {
    free_.push_back(nullptr);
    gpu_.check(cudaEventCreateWithFlags(&free_.back(), cudaEventDisableTiming), "cudaEventCreate");
  }
  if (streams_.isFirstCaptured() || gpu_.group.isAborted())
    return false;
  gpu_.check(cudaEventRecord(free_.back(), streams_.first()), "cudaEventRecord");
  marks_.push_back({number, free_.back()});
  free_.pop_back();
  return true;
}

int64_t CudaMarks::passed() {
  gpu_.enter();
  const RelaxedCapture relaxed;
  while (!marks_.empty()) {
    const cudaError_t code = cudaEventQuery(marks_.front().event);
    if (code == cudaErrorNotReady)
      break;
    gpu_.check(code, "cudaEventQuery");
    if (code != cudaSuccess)
      break;
    passed_ = marks_.front().number;
    free_.push_back(marks_.front().event);
    marks_.pop_front();
  }
  return passed_;
}

} // namespace braid
