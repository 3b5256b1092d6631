//===- lowering/stages/legality.h - which GEMMs can be lowered --------------------------------===//
#pragma once

#include "ir/fusion.h"

#include <string>
#include <vector>

namespace braid {

/// True for an axis that is really split: DIDx on a mesh of more than one device.
bool isSplit(const Fusion &fusion, const Axis &axis);

/// Why a node is not lowered as it stands.
struct Refusal {
  std::string reason;
  std::string otherwise = {}; ///< a remedy, if no other placement is one; else ""
};

/// Compares the axis kinds of a node's operands with its result's: of a GEMM, a pointwise node or a
/// reshard. Every axis that would need a move which lowering has not got; none if the node is
/// lowered. What is left for a lowered GEMM: its first operand is gathered along the leading axis,
/// nothing moves, or partial results are summed.
std::vector<Refusal> whyNotLowered(const Fusion &fusion, const FusionNode &node);

/// A GEMM whose first operand's second axis is split and the result's is not, so that each slice of
/// the leading one is gathered from all devices.
bool gathersSlices(const Fusion &fusion, const FusionNode &node);

} // namespace braid
