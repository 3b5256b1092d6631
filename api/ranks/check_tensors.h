//===- api/ranks/check_tensors.h - checks a caller's tensors against a program ----------------===//
#pragma once

#include "api/session.h"
#include "runtime/execute/backend.h"

namespace braid {

/// Checks the number, element types, shapes, alignment and memory of the tensors of all ranks in
/// this process, and that no output overlaps any other tensor. If a check fails, returns BadInput,
/// naming the tensor, the expected and actual values, and the rank if there are several.
Status checkTensors(std::span<const TensorSpec> inputSpecs, std::span<const TensorSpec> outputSpecs,
                    std::span<const RankTensors> ranks, Cluster &cluster);

/// Checks a single tensor, which messages refer to as "input NUMBER" or "output NUMBER".
Status checkTensor(bool isOutput, size_t number, const TensorSpec &spec, const Tensor &tensor,
                   Device &device);

} // namespace braid
