//===- backends/cuda/cuda_streams.h - one GPU, its streams and its events ---------------------===//
#pragma once

#include "backends/cuda/driver.h"
#include "runtime/execute/event_ranges.h"
#include "runtime/job/process_group.h"

#include <vector>

namespace braid {

/// The GPU of one rank. What fails while commands are issued becomes the failure of the job.
struct Gpu {
  ProcessGroup &group;
  const int64_t rank;
  const int number; ///< CUDA's
  const Driver *driver = nullptr;
  bool isAbandoned = false; ///< streams still use everything, so nothing is given back

  /// Makes this GPU the calling thread's.
  void enter() const;
  void check(cudaError_t code, const char *call) const;
  void check(CUresult code, const char *call) const;
  void check(const Status &status) const;
};

/// Lets this thread make streams and events, and query them, while some stream is captured.
class RelaxedCapture {
public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture &) = delete;

private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The streams of eager runs, of which the first is the caller's, and those of the capture that is
/// open, if there is one; and the events of Plans.
class CudaStreams {
public:
  explicit CudaStreams(const Gpu &gpu) : gpu_(gpu) {}
  ~CudaStreams();
  CudaStreams(const CudaStreams &) = delete;

  /// `caller` is the first stream; null: one of our own.
  Status start(cudaStream_t caller);
  Status reserve(size_t count);
  /// As Device::callerStream.
  Result<void *> callerStream(uint32_t number);

  /// A stream before whatever else the process has on its GPU: peers wait for what it does.
  static Result<cudaStream_t> create();
  static Status grow(std::vector<cudaStream_t> &streams, size_t count);

  size_t size() const { return streams_.size(); }
  cudaStream_t first() const { return streams_[0]; }
  /// True if the first stream is being captured, or may not be asked: CUDA's default stream, while
  /// another one is captured.
  bool isFirstCaptured() const;
  /// Work that is on the old first stream still precedes later runs, because these are issued to
  /// the same streams of their Plan.
  void replaceFirst(cudaStream_t next);

  /// From now on commands are recorded on these streams; null: they run. No event counts as
  /// recorded any more.
  void recordOn(const std::vector<cudaStream_t> *streams) {
    recorded_ = streams;
    isRecorded_.assign(isRecorded_.size(), false);
  }
  bool isCapturing() const { return recorded_ != nullptr; }
  /// The CUDA stream that takes commands of a Plan's stream now.
  cudaStream_t of(uint32_t stream) const { return (recorded_ ? *recorded_ : streams_)[stream]; }

  /// The stream gets work, so it is not known to be empty.
  void markBusy(size_t stream) { isBusy_[stream] = true; }
  bool isBusy(size_t stream) const { return isBusy_[stream]; }
  /// True if all are empty. True also when the GPU is lost: nothing will run any more.
  bool isDone();

  /// The event by which a stream waits for another.
  cudaEvent_t handover() const { return handover_; }
  /// Work that is issued to `next` from now on waits for the work on `before`.
  void putBehind(cudaStream_t before, cudaStream_t next) const;
  void putAllBehindFirst() const;
  void putFirstBehindAll() const;

  /// As Device::createEvents and releaseEvents.
  Result<uint32_t> createEvents(uint32_t count);
  void releaseEvents(uint32_t first) { ranges_.release(first); }
  /// True if it was recorded in this capture, or ever.
  bool isRecorded(uint32_t event) const { return isRecorded_[event]; }
  void record(uint32_t stream, uint32_t event);
  void wait(uint32_t stream, uint32_t event) const;

private:
  const Gpu &gpu_;
  std::vector<cudaStream_t> streams_;
  std::vector<bool> isBusy_; ///< work was issued since the stream was last seen empty
  const std::vector<cudaStream_t> *recorded_ = nullptr;
  std::vector<cudaStream_t> callersStreams_; ///< that callerStream() has given out; our own, but
                                             ///< for the first one if it was given to us
  bool ownsCallerStream_ = false;
  cudaEvent_t handover_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::vector<bool> isRecorded_;
  EventRanges ranges_; ///< the ranges of events_ that Plans have
};

} // namespace braid
