//===- backends/cuda/gemm/lt_gemm.h - one matrix product, described to cuBLASLt -===//
//
// cuBLASLt's matrices are column-major, ours row-major, so it is asked for the transposed product:
// c^T = b^T · a^T.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/gemm/cublas_lt.h"
#include "backends/cuda/kernels.h"
#include "runtime/execute/device.h"

#include <memory>
#include <vector>

namespace braid {

/// What is known of a product before its addresses are.
struct ProductShape {
  DType dtype;
  int64_t m, n, k;
  bool transposeB, hasBias;
  bool isAligned; ///< all addresses are multiples of kProductAlignment
  bool overlaps;  ///< as PlanMatmul's; the library is not told

  auto operator<=>(const ProductShape &) const = default;
};

inline constexpr uint32_t kProductAlignment = 16; ///< bytes: what the fast kernels ask for
inline constexpr size_t kWorkspaceBytes = size_t(32) << 20; ///< what cuBLAS itself takes on Hopper

/// A product that only needs addresses. Not thread-safe.
class LtProduct {
public:
  using Algorithm = cublasLtMatmulAlgo_t;

  /// `library` and `handle` outlive it.
  static Result<std::unique_ptr<LtProduct>> create(const CublasLt &library, cublasLtHandle_t handle,
                                                   const ProductShape &shape);
  ~LtProduct();
  LtProduct(const LtProduct &) = delete;

  /// At least one algorithm and at most `atMost`, the library's best guess first. None of them
  /// rounds sums before they are complete. Unsupported if there is none.
  Result<std::vector<Algorithm>> candidates(int atMost) const;
  /// Those, and then what the library has for products with twice and four times the rows, if it
  /// does for this one, too: for one that shares the device with others of its kind, these are
  /// often the best, and not on its own list.
  Result<std::vector<Algorithm>> manyCandidates(int atMostOfEach) const;
  /// An algorithm from elsewhere: Ok if it is one that candidates() could give. Unsupported if not.
  Status check(const Algorithm &algorithm) const;

  void use(const Algorithm &algorithm) { algorithm_ = algorithm; }
  const Algorithm &used() const { return algorithm_; }
  /// Launches it with the algorithm in use. `workspace` has kWorkspaceBytes of its own.
  Status launch(cudaStream_t stream, void *workspace, const MatmulArgs &args);

private:
  LtProduct(const CublasLt &library, cublasLtHandle_t handle, const ProductShape &shape)
      : library_(library), handle_(handle), shape_(shape) {}
  Status describe();
  std::vector<int32_t> configuration(const Algorithm &algorithm) const;

  const CublasLt &library_;
  const cublasLtHandle_t handle_;
  const ProductShape shape_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, result_ = nullptr;
  Algorithm algorithm_ = {};
  bool broadcastsBias_ = false; ///< c becomes the bias first, and the product is added to it
};

} // namespace braid
