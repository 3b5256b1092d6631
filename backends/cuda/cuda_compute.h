//===- backends/cuda/cuda_compute.h - arithmetic on one GPU -----------------------------------===//
#pragma once

#include "backends/cuda/cuda_trace.h"

namespace braid {

class CudaCompute final : public Compute, public GemmTuning {
public:
  CudaCompute(const Gpu &gpu, const CudaStreams &streams, const CudaProgress &progress,
              CudaTracer &tracer, std::unique_ptr<Gemms> &gemms, bool isReproducible)
      : gpu_(gpu), streams_(streams), progress_(progress), tracer_(tracer), gemms_(gemms),
        isReproducible_(isReproducible) {}

  bool isReproducible() const override { return isReproducible_; }
  GemmTuning *tuning() override { return this; }
  std::string choices() const override { return gemms_->choices(); }
  std::string tuningKey() const override { return gemms_->tuningKey(); }
  Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost) override {
    return gemms().tune(shape, atMost);
  }
  Status loadAlgorithm(const PlanMatmul &shape) override { return gemms().loadAlgorithm(shape); }
  Status setAlgorithm(const PlanMatmul &shape, const std::string &choice) override {
    return gemms().setAlgorithm(shape, choice);
  }
  Status warm(const PlanMatmul &shape) override { return gemms().warm(shape); }
  void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) override;
  void sum(uint32_t stream, Tag tag, const SumArgs &args) override;
  void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) override;

private:
  Gemms &gemms() const {
    gpu_.enter();
    return *gemms_;
  }

  const Gpu &gpu_;
  const CudaStreams &streams_;
  const CudaProgress &progress_;
  CudaTracer &tracer_;
  const std::unique_ptr<Gemms> &gemms_; ///< owned by the device; set by CudaDevice::start()
  const bool isReproducible_;
};

} // namespace braid
