//===- api/timing/shared_tensors.h - the tensors that all Plans that are timed share ----------===//
#pragma once

#include "runtime/execute/device.h"

#include <vector>

namespace braid {

/// The memory that all Plans read and write that are timed on a device: for each parameter and
/// result in order, enough for the largest so far. Goes before the device, and is given back then.
class SharedTensors {
public:
  /// `device` outlives this.
  SharedTensors(Device &device, int64_t rank) : device_(device), rank_(rank) {}
  ~SharedTensors();
  SharedTensors(const SharedTensors &) = delete;

  /// Addresses for one run of `plan`, in order. Inputs are random in [-1, 1], of the type of its
  /// GEMMs. Block while memory has to grow.
  Result<std::vector<const void *>> inputsOf(const Plan &plan);
  Result<std::vector<void *>> outputsOf(const Plan &plan);

private:
  struct Tensor {
    void *address = nullptr;
    int64_t bytes = 0;
    std::optional<DType> filledWith = {};
  };
  Status grow(Tensor &tensor, int64_t bytes);
  Status fill(Tensor &tensor, DType dtype);

  Device &device_;
  const int64_t rank_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<void *> allocated_;
};

} // namespace braid
