//===- api/timing/shared_tensors.h - the tensors shared by all timed Plans --------------------===//
#pragma once

#include "runtime/execute/device.h"

#include <vector>

namespace braid {

/// Memory shared by all timed Plans on a device: one allocation for the i-th inputs of all Plans,
/// and one for their i-th outputs, as large as the largest so far. The destructor frees the memory.
class SharedTensors {
public:
  /// `device` must outlive this object.
  SharedTensors(Device &device, int64_t rank) : device_(device), rank_(rank) {}
  ~SharedTensors();
  SharedTensors(const SharedTensors &) = delete;

  /// Return the addresses of a run's tensors, in the order of `plan`. Inputs are random numbers in
  /// [-1, 1), in the type of the Plan's GEMMs. May block to allocate or fill memory.
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
