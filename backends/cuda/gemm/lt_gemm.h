//===- backends/cuda/gemm/lt_gemm.h - a single cuBLASLt GEMM ----------------------------------===//
//
// cuBLASLt matrices are column-major and Braid's are row-major, so the library computes the
// transposed GEMM: c^T = b^T · a^T.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/cublas_lt.h"
#include "backends/cuda/kernels.h"
#include "runtime/execute/compute.h"

#include <memory>
#include <vector>

namespace braid {

/// The description of a GEMM, except for its addresses.
struct GemmShape {
  DType dtype;
  int64_t m, n, k;
  bool transposeB, hasBias;
  bool isAligned; ///< true if all addresses are multiples of kGemmAlignment
  bool overlaps;  ///< see PlanMatmul::overlaps; not passed to the library
  DType result;   ///< c's element type
  bool hasAddend; ///< if true, there is no bias

  auto operator<=>(const GemmShape &) const = default;
};

inline constexpr uint32_t kGemmAlignment = 16; ///< in bytes; required by the fast kernels
/// the size that cuBLAS itself uses on Hopper
inline constexpr size_t kWorkspaceBytes = size_t(32) << 20;

/// Device memory that one GEMM uses exclusively while it runs.
struct Workspace {
  void *data = nullptr;
  size_t bytes = 0;
};

/// A GEMM that is ready to launch once its addresses are given. Not thread-safe.
class LtGemm {
public:
  using Algorithm = cublasLtMatmulAlgo_t;

  /// `library` and `handle` must outlive the result.
  static Result<std::unique_ptr<LtGemm>> create(const CublasLt &library, cublasLtHandle_t handle,
                                                const GemmShape &shape);
  ~LtGemm();
  LtGemm(const LtGemm &) = delete;

  /// `Never` excludes algorithms that compute ranges of K concurrently and then add the results.
  enum class SplitsK { Perhaps, Never };
  /// Returns between one and `atMost` algorithms, with the library's best guess first. None of them
  /// rounds a sum before the sum is complete. Fails with Unsupported if there are no candidates.
  Result<std::vector<Algorithm>> candidates(int atMost, SplitsK splits = SplitsK::Perhaps) const;
  /// Returns candidates(), followed by the library's algorithms for GEMMs with two and four times
  /// as many rows, if they also accept this GEMM. These algorithms are often the fastest when
  /// similar GEMMs share the device.
  Result<std::vector<Algorithm>> manyCandidates(int atMostOfEach) const;
  /// Fails with Unsupported unless `algorithm`, which may be read from a cache, meets the
  /// requirements that candidates() imposes.
  Status check(const Algorithm &algorithm) const;
  bool splitsK(const Algorithm &algorithm) const;
  /// Returns true if the algorithm has a fixed tile size.
  bool hasTile(const Algorithm &algorithm) const;

  void use(const Algorithm &algorithm);
  /// Returns the workspace size of the current algorithm, at most kWorkspaceBytes.
  size_t workspaceBytes() const { return workspaceBytes_; }
  const Algorithm &used() const { return algorithm_; }
  /// Launches the GEMM with the current algorithm.
  Status launch(cudaStream_t stream, Workspace workspace, const MatmulArgs &args);

private:
  LtGemm(const CublasLt &library, cublasLtHandle_t handle, const GemmShape &shape)
      : library_(library), handle_(handle), shape_(shape) {}
  Status describe();
  std::vector<int32_t> configuration(const Algorithm &algorithm) const;
  template <class Value>
  int32_t attribute(const Algorithm &algorithm,
                    cublasLtMatmulAlgoConfigAttributes_t attribute) const;

  const CublasLt &library_;
  const cublasLtHandle_t handle_;
  const GemmShape shape_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, result_ = nullptr;
  Algorithm algorithm_ = {};
  size_t workspaceBytes_ = kWorkspaceBytes;
  bool broadcastsBias_ = false; ///< true if the bias is written to c first, and the GEMM adds to c
};

} // namespace braid
