//===- api/bench/row_tensors.h - the tensors that all rows of a bench share -------------------===//
#pragma once

#include "runtime/execute/device.h"

#include <vector>

namespace braid {

/// What all rows of all shapes read and write: for each parameter and result in order, memory for
/// the largest so far. Random inputs in [-1, 1], outputs as they come. The device owns the memory.
class RowTensors {
public:
  /// `dtype` is that of all rows; `device` outlives this.
  RowTensors(Device &device, DType dtype, int64_t rank);

  /// Addresses for one run of `plan`, in order. Block while memory has to grow.
  Result<std::vector<void *>> inputsOf(const Plan &plan);
  Result<std::vector<void *>> outputsOf(const Plan &plan);
  /// So far; what was outgrown included.
  int64_t allocatedBytes() const { return allocatedBytes_; }

private:
  struct Tensor {
    void *address = nullptr;
    int64_t bytes = 0;
  };
  Result<std::vector<void *>> take(const Plan &plan, llvm::ArrayRef<uint32_t> buffers,
                                   std::vector<Tensor> &tensors, bool isRandom);
  Status grow(Tensor &tensor, int64_t bytes, bool isRandom);
  void fill(const Tensor &tensor);

  Device &device_;
  const std::vector<char> tile_;
  std::vector<Tensor> inputs_, outputs_;
  int64_t allocatedBytes_ = 0;
};

} // namespace braid
