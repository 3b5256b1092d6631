//===- api/tensor.h - the caller's tensors ----------------------------------------------------===//
#pragma once

#include "api/dtype.h"

#include <span>
#include <string>
#include <vector>

namespace braid {

/// An input or output of a program: row-major and contiguous, with its local shape on each rank.
struct TensorSpec {
  std::string name; ///< without `%`
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

/// The caller's memory for an input or output of one run. Inputs are never written.
struct Tensor {
  void *data = nullptr;
  DType dtype = DType::F32;
  std::span<const int64_t> shape;

  Tensor() = default;
  /// Wraps `memory` as a tensor with the type and shape of `spec`.
  Tensor(void *memory, const TensorSpec &spec)
      : data(memory), dtype(spec.dtype), shape(spec.shape) {}
  Tensor(void *memory, DType type, std::span<const int64_t> extents)
      : data(memory), dtype(type), shape(extents) {}
};

} // namespace braid
