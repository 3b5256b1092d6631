//===- backends/cuda/gemm/gemms.h - GEMMs by cuBLASLt -----------------------------------------===//
//
// A GEMM's algorithm is chosen by tune() and setAlgorithm(), or is else the library's first guess,
// or that of its kind (fixed_algorithm.h); multiply() only launches it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/lt_gemm.h"
#include "runtime/tune/measurement_cache.h"

#include <map>

namespace braid {

/// The way in which the algorithm of a GEMM is chosen.
enum class AlgorithmBy : uint8_t {
  Time,  ///< the fastest, as it was measured
  Guess, ///< the library's first guess, but where another one is set
  Kind,  ///< the same for every M (fixed_algorithm.h); nothing is tuned or set
};

/// The GEMMs of one device. Not thread-safe.
class Gemms {
public:
  /// For the calling thread's current device. `warn` is told what is wrong with what was measured
  /// before; it may be null.
  static Result<std::unique_ptr<Gemms>> create(AlgorithmBy by, MeasurementCache::Warn warn);
  ~Gemms();

  /// The workspace of a GEMM of this shape, as it was warmed up.
  int64_t workspaceBytes(const PlanMatmul &shape) const;
  /// Counts warm shapes that got another algorithm, which may need another workspace.
  size_t replaced() const { return replaced_; }
  /// A workspace for each of streams 0 .. count-1: two GEMMs at the same time must not share
  /// one.
  Status reserveWorkspaces(uint32_t count);
  Workspace workspace(uint32_t stream) const { return {workspaces_[stream], kWorkspaceBytes}; }

  /// As GemmTuning::tuningKey.
  const std::string &tuningKey() const { return machine_; }
  /// As GemmTuning::loadAlgorithm.
  Status loadAlgorithm(const PlanMatmul &shape);
  /// As GemmTuning::tune. An empty text stands for the library's first guess.
  Result<std::string> tune(const PlanMatmul &shape, std::chrono::milliseconds atMost);
  /// As GemmTuning::setAlgorithm.
  Status setAlgorithm(const PlanMatmul &shape, const std::string &choice);
  /// As Compute::choices.
  std::string choices() const;

  /// Decides how to multiply operands of such shape, for addresses aligned to 16 bytes and for any,
  /// and does it once, so that its kernels are loaded: loading one later could wait for a stream
  /// that waits for a peer. Blocks. Unsupported if the algorithm of its kind does not take it.
  Status warm(const PlanMatmul &shape);
  /// Launches. The shape has been warmed; Internal if not. Unsupported at addresses that the
  /// algorithm of its kind does not take.
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
  std::string describeKinds() const;
  Status runOnce(const PlanMatmul &shape, bool isAligned);
  MeasurementCache &cache();

  const CublasLt &library_;
  const AlgorithmBy by_;
  const MeasurementCache::Warn warn_;
  cublasLtHandle_t handle_ = nullptr;
  std::string machine_; ///< the device, its driver, and the library, with versions
  std::map<GemmShape, std::unique_ptr<LtGemm>> prepared_;
  size_t replaced_ = 0;
  std::map<GemmShape, LtGemm::Algorithm> algorithms_;
  std::map<GemmShape, LtGemm::Algorithm> ofKinds_; ///< by kindOf()
  std::vector<void *> workspaces_;

  std::unique_ptr<MeasurementCache> cache_; ///< set once this device has tuned something
  size_t tuned_ = 0, known_ = 0;            ///< calls of tune() that measured, and that did not
  std::chrono::duration<double> tuning_{0}; ///< spent on measuring
};

} // namespace braid
