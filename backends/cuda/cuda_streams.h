//===- backends/cuda/cuda_streams.h - one GPU, its streams and its events ---------------------===//
#pragma once

#include "backends/cuda/driver.h"
#include "runtime/execute/event_ranges.h"
#include "runtime/job/process_group.h"

#include <vector>

namespace braid {

/// The GPU of one rank. An error while issuing a command aborts the job.
struct Gpu {
  ProcessGroup &group;
  const int64_t rank;
  const int number; ///< CUDA's device number
  const Driver *driver = nullptr;
  bool isAbandoned = false; ///< true if resources must leak, because streams still use them

  /// Makes this GPU the calling thread's current device.
  void enter() const;
  void check(cudaError_t code, const char *call) const;
  void check(CUresult code, const char *call) const;
  void check(const Status &status) const;
};

/// Lets this thread create and query streams and events while a stream is being captured.
class RelaxedCapture {
public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture &) = delete;

private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The streams for eager runs (the first is the caller's stream), the streams of the open capture,
/// if any, and the events of Plans.
class CudaStreams {
public:
  explicit CudaStreams(const Gpu &gpu) : gpu_(gpu) {}
  ~CudaStreams();
  CudaStreams(const CudaStreams &) = delete;

  /// Creates the first stream.
  Status start();
  Status reserve(size_t count);
  /// Implements Device::callerStream.
  Result<void *> callerStream(uint32_t number);

  /// Creates a stream with priority over the process's other work on this GPU, because peers may be
  /// waiting for the stream.
  static Result<cudaStream_t> create();
  static Status grow(std::vector<cudaStream_t> &streams, size_t count);

  size_t size() const { return streams_.size(); }
  cudaStream_t first() const { return streams_[0]; }
  /// Returns true if the first stream is being captured. Also true if the first stream is CUDA's
  /// default stream, which cannot be queried while another stream is being captured.
  bool isFirstCaptured() const;
  /// Makes `next` the first stream, and orders it after the work on the old first stream.
  void replaceFirst(cudaStream_t next);

  /// Directs later commands to `streams`, which are being captured, or to the eager streams if
  /// `streams` is null. Marks all events as unrecorded.
  void recordOn(const std::vector<cudaStream_t> *streams) {
    recorded_ = streams;
    isRecorded_.assign(isRecorded_.size(), false);
  }
  bool isCapturing() const { return recorded_ != nullptr; }
  /// Returns the CUDA stream that currently represents stream `stream` of a Plan.
  cudaStream_t of(uint32_t stream) const { return (recorded_ ? *recorded_ : streams_)[stream]; }

  /// Records that the stream may have work in flight.
  void markBusy(size_t stream) { isBusy_[stream] = true; }
  bool isBusy(size_t stream) const { return isBusy_[stream]; }
  /// Returns true if all streams are empty, or if the GPU is lost and will execute no more work.
  bool isDone();

  /// Returns the event used to make one stream wait for another.
  cudaEvent_t handover() const { return handover_; }
  /// Orders later work on `next` after the work on `before`.
  void putBehind(cudaStream_t before, cudaStream_t next) const;
  void putAllBehindFirst() const;
  void putFirstBehindAll() const;

  /// Implement Device::createEvents and releaseEvents.
  Result<uint32_t> createEvents(uint32_t count);
  void releaseEvents(uint32_t first) { ranges_.release(first); }
  /// Returns true if the event has been recorded since the last recordOn().
  bool isRecorded(uint32_t event) const { return isRecorded_[event]; }
  void record(uint32_t stream, uint32_t event);
  void wait(uint32_t stream, uint32_t event) const;

private:
  const Gpu &gpu_;
  std::vector<cudaStream_t> streams_;
  std::vector<bool> isBusy_; ///< true if work may have been issued since the stream was last empty
  const std::vector<cudaStream_t> *recorded_ = nullptr;
  std::vector<cudaStream_t> callersStreams_; ///< returned by callerStream()
  cudaEvent_t handover_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::vector<bool> isRecorded_;
  EventRanges ranges_; ///< ranges of events_ assigned to Plans
};

} // namespace braid
