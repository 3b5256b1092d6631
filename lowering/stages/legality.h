//===- lowering/stages/legality.h - decides which GEMMs can be lowered ------------------------===//
#pragma once

#include "ir/fusion.h"

#include <string>
#include <vector>

namespace braid {

/// True for an axis that is actually split: DIDx on a mesh of more than one device.
bool isSplit(const Fusion &fusion, const Axis &axis);

/// The reason why a node cannot be lowered.
struct Refusal {
  std::string reason;
  std::string otherwise = {}; ///< a remedy other than a change of placement; empty if there is none
};

/// Compares the axis kinds of the operands and the result of a GEMM, a pointwise node or a reshard.
/// Returns every axis whose movement lowering does not support; empty if the node can be lowered. A
/// GEMM that passes gathers its first operand along the leading axis, moves nothing, or sums
/// partial results.
std::vector<Refusal> whyNotLowered(const Fusion &fusion, const FusionNode &node);

/// True for a GEMM that gathers each slice of the leading axis from all devices: the second axis of
/// its first operand is split, and the result's is not.
bool gathersSlices(const Fusion &fusion, const FusionNode &node);

} // namespace braid
