//===- api/ranks/check_tensors.h - are a caller's tensors those that a program wants ----------===//
#pragma once

#include "api/tensor.h"
#include "runtime/execute/device.h"

namespace braid {

/// BadInput says which tensor, what was expected and what came. `device` is where they have to lie.
Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const Tensor> inputs,
                    std::span<const TensorSpec> outputSpecs, std::span<const Tensor> outputs,
                    Device &device);

} // namespace braid
