//===- api/ranks/arguments.h - the caller's tensors for one run on one rank -------------------===//
#pragma once

#include "runtime/execute/device.h"

#include <memory>

namespace braid {

/// The addresses for one run on one rank, in the order of the program's parameters and results.
struct RunArguments {
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
};

/// The inputs and outputs of a run, both in host memory, where inputs are filled and outputs are
/// compared, and in device-accessible memory, which may be the same memory.
class Arguments {
public:
  /// Returns Unsupported if memory runs out. `plan` and `device` must outlive the result.
  static Result<Arguments> allocate(const Plan &plan, Device &device);

  /// Returns the device addresses for a run.
  const RunArguments &addresses() const { return addresses_; }
  /// Return the host address of an input or output.
  void *input(size_t index) { return tensors_[index].host.get(); }
  void *output(size_t index) { return tensors_[addresses_.inputs.size() + index].host.get(); }

  /// Issues copies of all inputs and outputs to the device, on stream 0.
  void upload();
  /// Issues copies of all outputs to the host, on stream 0. Does not wait for the copies.
  void download();

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  struct Tensor {
    std::unique_ptr<void, Free> host;
    void *device; ///< equal to `host` if the device can access host memory
    int64_t bytes;
  };
  explicit Arguments(Device &device) : device_(&device) {}
  Result<void *> add(int64_t bytes);

  Device *device_;
  RunArguments addresses_;
  std::vector<Tensor> tensors_; ///< inputs, then outputs
};

/// Fills `data` with `count` random numbers in [-1, 1) that use the full precision of `dtype`, so
/// that sums of their products depend on the order of additions.
void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed);

} // namespace braid
