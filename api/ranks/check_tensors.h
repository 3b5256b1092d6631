//===- api/ranks/check_tensors.h - are a caller's tensors those that a program wants ----------===//
#pragma once

#include "api/tensor.h"
#include "runtime/execute/device.h"

namespace braid {

/// A caller's tensors for one run on one rank; `device` is where they have to lie.
struct GivenTensors {
  int64_t rank;
  std::span<const Tensor> inputs, outputs;
  Device *device;
};

/// Checks the tensors of all ranks that are here: number, element type, shape, alignment, place,
/// and that no output overlaps another tensor of any of these ranks. BadInput says which tensor,
/// what was expected and what came, and if there are several ranks, which one.
Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const TensorSpec> outputSpecs,
                    llvm::ArrayRef<GivenTensors> ranks);

/// The same for one tensor alone: "input" or "output" of that number.
Status checkTensor(const char *kind, size_t number, const TensorSpec &spec, const Tensor &tensor,
                   Device &device);

} // namespace braid
