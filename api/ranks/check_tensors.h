//===- api/ranks/check_tensors.h - are a caller's tensors those that a program wants ----------===//
#pragma once

#include "api/tensor.h"
#include "runtime/execute/device.h"

namespace braid {

/// BadInput says which tensor, what was expected and what came. `device` is where they have to lie.
Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const Tensor> inputs,
                    std::span<const TensorSpec> outputSpecs, std::span<const Tensor> outputs,
                    Device &device);

/// The same of one of them: "input" or "output" of that number.
Status checkTensor(const char *kind, size_t number, const TensorSpec &spec, const Tensor &tensor,
                   Device &device);

} // namespace braid
