//===- lowering/stages/legality.h - which GEMMs can be lowered --------------------------------===//
#pragma once

#include "ir/fusion.h"

namespace braid {

/// True for an axis that is really split: DIDx on a mesh of more than one device.
bool isSplit(const Fusion &fusion, const Axis &axis);

/// Compares the axis kinds of a node's operands with its result's: of a GEMM, a pointwise node or a
/// reshard. Reports every axis
/// that would need a move which lowering has not got, with what would be accepted; true if none
/// does. What is left for a lowerable GEMM: its first operand is gathered along the leading
/// axis, nothing moves, or partial results are summed.
bool checkLowerable(const Fusion &fusion, const FusionNode &node, Diagnostics &diags);

/// A GEMM whose first operand's second axis is split and the result's is not, so that each slice of
/// the leading one is gathered from all devices.
bool gathersSlices(const Fusion &fusion, const FusionNode &node);

} // namespace braid
