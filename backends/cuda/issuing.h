//===- backends/cuda/issuing.h - what goes around the issue of every command ------------------===//
#pragma once

#include "backends/cuda/cuda_device.h"

namespace braid {

/// A range for profilers, with the program's names and
/// lines; and, while tracing, two events, which are created on the way, so a traced run costs more.
class CudaDevice::Issuing {
public:
  Issuing(CudaDevice &device, uint32_t stream, Tag tag) : device_(device), stream_(stream) {
    device_.enter();
    if (!device_.capture_)
      device_.isDirty_[stream] = true;
    device_.pushRange(tag);
    if (device_.isTracing_ && !device_.capture_)
      end_ = device_.beginSpan(stream, tag);
  }
  ~Issuing() {
    if (end_)
      device_.check(cudaEventRecord(end_, device_.streamOf(stream_)), "cudaEventRecord");
    nvtxDomainRangePop(device_.domain_);
  }
  Issuing(const Issuing &) = delete;

private:
  CudaDevice &device_;
  const uint32_t stream_;
  cudaEvent_t end_ = nullptr;
};

} // namespace braid
