//===- backends/cuda/cuda_streams.cpp - one GPU, its streams and its events -------------------===//

#include "backends/cuda/cuda_streams.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {

/// The caller may have changed this thread's current device since the last call.
void Gpu::enter() const {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current != number)
    cudaSetDevice(number);
}

void Gpu::check(cudaError_t code, const char *call) const {
  if (code != cudaSuccess)
    check(cudaFailure(code, call));
}

void Gpu::check(CUresult code, const char *call) const {
  if (code == CUDA_SUCCESS)
    return;
  const char *name = "unknown";
  driver->getErrorName(code, &name);
  check(peerFailed("{} from {}", name, call));
}

void Gpu::check(const Status &status) const {
  if (!status.isOk())
    group.abort(status.annotated(fmt::format("rank {}", rank)));
}

// -- Streams. --

Status CudaStreams::start() {
  BRAID_TRY(callerStream(0));
  streams_.push_back(callersStreams_[0]);
  isBusy_.push_back(false);
  BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&handover_, cudaEventDisableTiming));
  return Status::ok();
}

CudaStreams::~CudaStreams() {
  if (gpu_.isAbandoned)
    return;
  for (cudaEvent_t event : events_)
    cudaEventDestroy(event);
  if (handover_)
    cudaEventDestroy(handover_);
  for (size_t i = 1; i < streams_.size(); ++i)
    cudaStreamDestroy(streams_[i]);
  for (cudaStream_t stream : callersStreams_)
    cudaStreamDestroy(stream);
}

Result<cudaStream_t> CudaStreams::create() {
  int least = 0, greatest = 0;
  BRAID_CUDA_RETURN_IF_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  BRAID_CUDA_RETURN_IF_ERROR(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return stream;
}

Status CudaStreams::grow(std::vector<cudaStream_t> &streams, size_t count) {
  while (streams.size() < count)
    streams.push_back(BRAID_TRY(create()));
  return Status::ok();
}

Status CudaStreams::reserve(size_t count) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  BRAID_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(streams_[0], &capture));
  if (capture != cudaStreamCaptureStatusNone)
    return badInput("the caller's stream is being captured, but the program has not been prepared: "
                    "call prepare() before starting the capture");
  BRAID_TRY(grow(streams_, count));
  isBusy_.resize(streams_.size(), false);
  return Status::ok();
}

Result<void *> CudaStreams::callerStream(uint32_t number) {
  while (callersStreams_.size() <= number) {
    cudaStream_t stream = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    callersStreams_.push_back(stream);
  }
  return callersStreams_[number];
}

bool CudaStreams::isFirstCaptured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(streams_[0], &status);
  if (code == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return true;
  }
  gpu_.check(code, "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void CudaStreams::replaceFirst(cudaStream_t next) {
  putBehind(streams_[0], next);
  streams_[0] = next;
  isBusy_[0] = true;
}

bool CudaStreams::isDone() {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!isBusy_[i])
      continue;
    const cudaError_t code = cudaStreamQuery(streams_[i]);
    if (code == cudaErrorNotReady)
      return false;
    gpu_.check(code, "cudaStreamQuery");
    isBusy_[i] = false;
  }
  return true;
}

void CudaStreams::putBehind(cudaStream_t before, cudaStream_t next) const {
  gpu_.check(cudaEventRecord(handover_, before), "cudaEventRecord");
  gpu_.check(cudaStreamWaitEvent(next, handover_, 0), "cudaStreamWaitEvent");
}

void CudaStreams::putAllBehindFirst() const {
  gpu_.check(cudaEventRecord(handover_, streams_[0]), "cudaEventRecord");
  for (size_t stream = 1; stream < streams_.size(); ++stream)
    gpu_.check(cudaStreamWaitEvent(streams_[stream], handover_, 0), "cudaStreamWaitEvent");
}

/// Makes the first stream wait for all busy streams, because earlier runs may not have done so.
void CudaStreams::putFirstBehindAll() const {
  for (size_t stream = 1; stream < streams_.size(); ++stream)
    if (isBusy_[stream])
      putBehind(streams_[stream], streams_[0]);
}

// -- Events. --

Result<uint32_t> CudaStreams::createEvents(uint32_t count) {
  if (std::optional<uint32_t> first = ranges_.reuse(count)) {
    std::fill_n(isRecorded_.begin() + *first, count, false);
    return *first;
  }
  const auto first = static_cast<uint32_t>(events_.size());
  ranges_.add(first, count);
  for (uint32_t i = 0; i < count; ++i) {
    cudaEvent_t event = nullptr;
    BRAID_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    events_.push_back(event);
    isRecorded_.push_back(false);
  }
  return first;
}

void CudaStreams::record(uint32_t stream, uint32_t event) {
  isRecorded_[event] = true;
  gpu_.check(cudaEventRecord(events_[event], of(stream)), "cudaEventRecord");
}

void CudaStreams::wait(uint32_t stream, uint32_t event) const {
  gpu_.check(cudaStreamWaitEvent(of(stream), events_[event], 0), "cudaStreamWaitEvent");
}

} // namespace braid
