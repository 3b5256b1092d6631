//===- backends/cuda/gemm/gemms.h - GEMMs computed by cuBLASLt --------------------------------===//
//
// tune() and setAlgorithm() choose the algorithm for a GEMM. The default is the library's first
// guess, or the kind's fixed algorithm (fixed_algorithm.h). multiply() only launches the GEMM.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"
#include "runtime/tune/measurement_cache.h"

#include <map>

namespace braid {

/// The policy for choosing GEMM algorithms.
enum class AlgorithmBy : uint8_t {
  Time,  ///< the fastest in measurements
  Guess, ///< the library's first guess, unless setAlgorithm() sets another algorithm
  Kind,  ///< the same algorithm for every M (fixed_algorithm.h); never tuned or set
};

/// The GEMMs of one device. Not thread-safe.
class Gemms {
public:
  /// Creates the GEMMs of the calling thread's current device. `warn`, which may be null, receives
  /// warnings about invalid cached measurements.
  static Result<std::unique_ptr<Gemms>> create(AlgorithmBy by, MeasurementCache::Warn warn);
  ~Gemms();

  /// Returns the workspace size in bytes for a GEMM of this shape. Call warm() first.
  int64_t workspaceBytes(const PlanMatmul &shape) const;
  /// Allocates a workspace, for use by one GEMM at a time, for each of streams 0 to count-1.
  Status reserveWorkspaces(uint32_t count);
  Workspace workspace(uint32_t stream) const { return {workspaces_[stream], kWorkspaceBytes}; }

  /// Implements GemmTuning::tuningKey.
  const std::string &tuningKey() const { return machine_; }
  /// Implements GemmTuning::loadAlgorithm.
  Status loadAlgorithm(const PlanMatmul &shape);
  /// Implements GemmTuning::tune. An empty string means the library's first guess.
  Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost);
  /// Implements GemmTuning::setAlgorithm.
  Status setAlgorithm(const PlanMatmul &shape, const std::string &choice);
  /// Implements Compute::choices.
  std::string choices() const;

  /// Chooses one algorithm for addresses that are 16-byte aligned, and one for other addresses.
  /// Runs each once to load its kernels, because loading them later could block on a stream that
  /// awaits a peer. Blocks. Fails with Unsupported if the fixed algorithm for the kind does not
  /// accept the shape.
  Status warm(const PlanMatmul &shape);
  /// Launches a GEMM. Fails with Internal if the shape has not been passed to warm(), and with
  /// Unsupported if the fixed algorithm for the kind does not accept the addresses.
  Status multiply(cudaStream_t stream, Workspace workspace, const MatmulArgs &args);

private:
  Gemms(const CublasLt &library, AlgorithmBy by, MeasurementCache::Warn warn)
      : library_(library), by_(by), warn_(std::move(warn)) {}
  Status start();
  Result<std::unique_ptr<LtGemm>> describe(const GemmShape &shape) const;
  Result<LtGemm::Algorithm> algorithmFor(const GemmShape &shape, const LtGemm &gemm);
  Result<LtGemm::Algorithm> algorithmOfKind(const GemmShape &shape, const LtGemm &gemm);
  Result<std::unique_ptr<LtGemm>> choose(const GemmShape &shape);
  bool isTunable(const PlanMatmul &shape) const;
  Status runOnce(const PlanMatmul &shape, bool isAligned);
  MeasurementCache &cache();

  const CublasLt &library_;
  const AlgorithmBy by_;
  const MeasurementCache::Warn warn_;
  cublasLtHandle_t handle_ = nullptr;
  std::string machine_; ///< names and versions of device, driver and library
  std::map<GemmShape, std::unique_ptr<LtGemm>> prepared_;
  std::map<GemmShape, LtGemm::Algorithm> algorithms_;
  std::map<GemmShape, LtGemm::Algorithm> ofKinds_; ///< keyed by kindOf()
  std::vector<void *> workspaces_;

  std::unique_ptr<MeasurementCache> cache_; ///< null until first used
  /// number of tune() calls that took measurements, and of calls that found a cached result
  size_t tuned_ = 0, known_ = 0;
  std::chrono::duration<double> tuning_{0}; ///< time spent measuring
};

} // namespace braid
