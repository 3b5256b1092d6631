//===- api/timing/shared_tensors.h - the tensors that all timed Plans share -------------------===//
#pragma once

#include "runtime/execute/device.h"

#include <vector>

namespace braid {

/// The memory that all timed Plans of a device use: for each parameter and result in order, enough
/// for the largest so far. The destructor frees it; the device must outlive it.
class SharedTensors {
public:
  /// `device` must outlive this.
  SharedTensors(Device &device, int64_t rank) : device_(device), rank_(rank) {}
  ~SharedTensors();
  SharedTensors(const SharedTensors &) = delete;

  /// Return addresses for one run of `plan`, in order. Inputs are random in [-1, 1), in the type of
  /// the Plan's GEMMs. Block while memory grows.
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
