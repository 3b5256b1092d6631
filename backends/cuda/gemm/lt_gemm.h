//===- backends/cuda/gemm/lt_gemm.h - one GEMM, described to cuBLASLt -------------------------===//
//
// cuBLASLt's matrices are column-major, ours row-major, so it is asked for the transposed GEMM:
// c^T = b^T · a^T.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/cublas_lt.h"
#include "backends/cuda/kernels.h"
#include "runtime/execute/compute.h"

#include <memory>
#include <vector>

namespace braid {

/// A GEMM without its addresses.
struct GemmShape {
  DType dtype;
  int64_t m, n, k;
  bool transposeB, hasBias;
  bool isAligned; ///< all addresses are multiples of kGemmAlignment
  bool overlaps;  ///< as PlanMatmul's; the library is not told
  DType result;   ///< c's element type
  bool hasAddend; ///< and no bias

  auto operator<=>(const GemmShape &) const = default;
};

inline constexpr uint32_t kGemmAlignment = 16; ///< bytes: what the fast kernels ask for
inline constexpr size_t kWorkspaceBytes = size_t(32) << 20; ///< as cuBLAS itself takes on Hopper

/// Memory of the device that one GEMM has to itself while it runs.
struct Workspace {
  void *data;
  size_t bytes;
};

/// A GEMM that only needs addresses. Not thread-safe.
class LtGemm {
public:
  using Algorithm = cublasLtMatmulAlgo_t;

  /// `library` and `handle` outlive it.
  static Result<std::unique_ptr<LtGemm>> create(const CublasLt &library, cublasLtHandle_t handle,
                                                const GemmShape &shape);
  ~LtGemm();
  LtGemm(const LtGemm &) = delete;

  /// Whether an algorithm may have parts of K multiplied at the same time, and added behind that.
  enum class SplitsK { Perhaps, Never };
  /// At least one algorithm and at most `atMost`, the library's best guess first. None of them
  /// rounds sums before they are complete. Unsupported if there is none.
  Result<std::vector<Algorithm>> candidates(int atMost, SplitsK splits = SplitsK::Perhaps) const;
  /// candidates(), followed by the library's algorithms for GEMMs with two and four times the rows
  /// that also accept this GEMM. For a GEMM that shares the device with others like it, these are
  /// often the best, and the library does not list them.
  Result<std::vector<Algorithm>> manyCandidates(int atMostOfEach) const;
  /// An algorithm from elsewhere: Ok if it is one that candidates() could give. Unsupported if not.
  Status check(const Algorithm &algorithm) const;
  bool splitsK(const Algorithm &algorithm) const;
  /// It says which tile it has.
  bool hasTile(const Algorithm &algorithm) const;
  /// "algorithm 66, tile 20, stages 36", as the library numbers them.
  std::string describe(const Algorithm &algorithm) const;

  void use(const Algorithm &algorithm);
  /// The workspace of the algorithm in use, at most kWorkspaceBytes.
  size_t workspaceBytes() const { return workspaceBytes_; }
  const Algorithm &used() const { return algorithm_; }
  /// Launches it with the algorithm in use.
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
  bool broadcastsBias_ = false; ///< c becomes the bias first, and the GEMM is added to it
};

} // namespace braid
