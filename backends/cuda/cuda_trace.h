//===- backends/cuda/cuda_trace.h - timing of a GPU's commands --------------------------------===//
#pragma once

#include "backends/cuda/cuda_progress.h"

#include <deque>

namespace braid {

/// Records command spans, and emits profiler ranges that show the program's names and lines.
class CudaTracer final : public Tracer {
public:
  CudaTracer(const Gpu &gpu, CudaStreams &streams, const CudaProgress &progress)
      : gpu_(gpu), streams_(streams), progress_(progress), domain_(nvtxDomainCreateA("braid")) {}
  ~CudaTracer() override;

  void startTrace() override;
  std::vector<Span> takeTrace() override;
  /// Returns true while tracing. Each command is then issued separately and has its own span,
  /// except for commands in graphs, which have no spans.
  bool isTracing() const { return isTracing_ && !streams_.isCapturing(); }
  /// Registers the name of each origin in `plan` with profilers.
  std::vector<nvtxStringHandle_t> registerNames(const Plan &plan) const;

private:
  friend class Issuing;
  struct TracedCommand {
    Tag tag;
    uint32_t stream;
    cudaEvent_t begin, end;
  };
  void pushRange(Tag tag) const;
  cudaEvent_t beginSpan(uint32_t stream, Tag tag);

  const Gpu &gpu_;
  CudaStreams &streams_;
  const CudaProgress &progress_;
  const nvtxDomainHandle_t domain_;
  bool isTracing_ = false;
  cudaEvent_t start_ = nullptr; ///< null before the first trace
  int64_t startNs_ = 0;         ///< completion time of start_, on the host's clock
  std::vector<TracedCommand> traced_;
};

/// Brackets the issuing of a command with a profiler range and, while tracing, with two events. The
/// events are created during the run, so a traced run is slower.
class Issuing {
public:
  Issuing(CudaTracer &tracer, uint32_t stream, Tag tag);
  ~Issuing();
  Issuing(const Issuing &) = delete;

private:
  const CudaTracer &tracer_;
  const uint32_t stream_;
  cudaEvent_t end_ = nullptr;
};

/// Measures time on the first stream.
class CudaStopwatch final : public Stopwatch {
public:
  CudaStopwatch(const Gpu &gpu, CudaStreams &streams) : gpu_(gpu), streams_(streams) {}
  ~CudaStopwatch() override;
  void startClock() override { mark(0); }
  void stopClock() override { mark(1); }
  double clockedUs() override;

private:
  void mark(size_t number);

  const Gpu &gpu_;
  CudaStreams &streams_;
  cudaEvent_t marks_[2] = {}; ///< start and stop events; null until used
};

/// Numbered markers in the first stream.
class CudaMarks {
public:
  CudaMarks(const Gpu &gpu, const CudaStreams &streams) : gpu_(gpu), streams_(streams) {}
  ~CudaMarks();
  CudaMarks(const CudaMarks &) = delete;
  /// Implement Device::mark and passedMarks.
  bool mark(int64_t number);
  int64_t passed();

private:
  struct Mark {
    int64_t number;
    cudaEvent_t event;
  };
  const Gpu &gpu_;
  const CudaStreams &streams_;
  std::deque<Mark> marks_;        ///< marks that stream 0 may not have reached yet
  std::vector<cudaEvent_t> free_; ///< events to reuse
  int64_t passed_ = 0;
};

} // namespace braid
