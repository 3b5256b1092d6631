//===- api/ranks/check_tensors.h - checks a caller's tensors against a program ----------------===//
#pragma once

#include "api/tensor.h"
#include "runtime/execute/device.h"

namespace braid {

/// A caller's tensors for one run on one rank. They must lie in the memory of `device`.
struct GivenTensors {
  int64_t rank;
  std::span<const Tensor> inputs, outputs;
  Device *device;
};

/// Checks the tensors of all ranks in this process: number, element type, shape, alignment and
/// memory, and that no output overlaps another tensor of these ranks. BadInput names the tensor,
/// the expected and the actual property, and the rank if there are several.
Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const TensorSpec> outputSpecs,
                    llvm::ArrayRef<GivenTensors> ranks);

/// Checks a single tensor, which messages call "input NUMBER" or "output NUMBER".
Status checkTensor(bool isOutput, size_t number, const TensorSpec &spec, const Tensor &tensor,
                   Device &device);

} // namespace braid
