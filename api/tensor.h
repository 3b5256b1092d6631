//===- api/tensor.h - the caller's tensors ----------------------------------------------------===//
#pragma once

#include "api/dtype.h"

#include <span>
#include <string>
#include <vector>

namespace braid {

/// An input or output of a program on each rank, with its local shape, row-major and contiguous.
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
  /// Creates the tensor described by `spec`, at address `memory`.
  Tensor(void *memory, const TensorSpec &spec)
      : data(memory), dtype(spec.dtype), shape(spec.shape) {}
  Tensor(void *memory, DType type, std::span<const int64_t> extents)
      : data(memory), dtype(type), shape(extents) {}
};

} // namespace braid
