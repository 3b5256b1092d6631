//===- api/ranks/arguments.h - the caller's tensors of one run on one rank --------------------===//
#pragma once

#include "runtime/execute/device.h"

#include <memory>

namespace braid {

/// Addresses for one rank and one run, in the order of the program's parameters and results.
struct RunArguments {
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
};

/// Inputs and outputs in host memory, where they are filled and compared, and where the device
/// wants them: in the same place, or in memory of its own.
class Arguments {
public:
  /// Unsupported if there is no memory. `plan` and `device` outlive the result.
  static Result<Arguments> allocate(const Plan &plan, Device &device);

  /// The addresses for a run.
  RunArguments addresses() const;
  /// Host memory.
  void *input(size_t index) { return inputs_[index].host.get(); }
  void *output(size_t index) { return outputs_[index].host.get(); }

  /// Issues to stream 0 that inputs and outputs are brought to the device.
  void upload();
  /// Issues to stream 0 that outputs are brought back. To be followed by synchronize().
  void download();

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  struct Tensor {
    std::unique_ptr<void, Free> host;
    void *device; ///< the same address where the device reads host memory
    int64_t bytes;
  };
  explicit Arguments(Device &device) : device_(&device) {}
  Status add(int64_t bytes, std::vector<Tensor> &tensors);

  Device *device_;
  std::vector<Tensor> inputs_, outputs_;
};

} // namespace braid
