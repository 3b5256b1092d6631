//===- lowering/stages/legality.h - decides which GEMMs can be lowered ------------------------===//
#pragma once

#include "ir/fusion.h"

#include <string>
#include <vector>

namespace braid {

/// True if `axis` is DIDx and the mesh has more than one device.
bool isSplit(const Fusion &fusion, const Axis &axis);

/// Explains why a node cannot be lowered.
struct Refusal {
  std::string reason;
  std::string otherwise = {}; ///< a remedy other than a different placement, or empty
};

/// Compares the axis kinds of the operands and the result of a GEMM, a pointwise node or a reshard.
/// Returns one refusal for each unsupported data movement, or an empty list if the node can be
/// lowered. A GEMM that can be lowered gathers its first operand along the leading axis, moves no
/// data, or sums partial results.
std::vector<Refusal> whyNotLowered(const Fusion &fusion, const FusionNode &node);

/// True for a GEMM that gathers each slice of the leading axis from all devices: its first
/// operand's second axis is split, but its result's second axis is not.
bool gathersSlices(const Fusion &fusion, const FusionNode &node);

} // namespace braid
