//===- backends/cuda/products.h - matrix products by cuBLASLt ---------------------------------===//
//
// The library is opened at run time: a binary that was built with it starts without it, too, and
// says what is missing. A product's algorithm is chosen by warm(); multiply() only launches it.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cuda/cuda_status.h"
#include "runtime/device.h"

#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace braid {

class CublasLt; // products.cpp

/// The products of one device. Not thread-safe.
class Products {
public:
  static Result<std::unique_ptr<Products>> create();
  ~Products();

  /// A workspace for each of streams 0 .. count-1: two products at the same time must not share
  /// one.
  Status reserveWorkspaces(uint32_t count);
  /// Chooses how to multiply operands of such shape, for addresses aligned to 16 bytes and for any,
  /// and does it once, so that its kernels are loaded: loading one later could wait for a stream
  /// that waits for a peer. Blocks.
  Status warm(const PlanMatmul &shape);
  /// Launches. The shape has been warmed; Internal if not.
  Status multiply(cudaStream_t stream, uint32_t workspace, const MatmulArgs &args);

private:
  explicit Products(const CublasLt &library);
  struct Prepared;
  /// Type, shape, transposition, bias, and whether all addresses are aligned to 16 bytes.
  using Key = std::tuple<int, int64_t, int64_t, int64_t, bool, bool, bool>;
  Result<std::unique_ptr<Prepared>> choose(const Key &key);
  Status runOnce(const PlanMatmul &shape, bool isAligned);

  const CublasLt &library_;
  void *handle_ = nullptr; ///< cublasLtHandle_t
  std::map<Key, std::unique_ptr<Prepared>> prepared_;
  std::vector<void *> workspaces_;
};

} // namespace braid
