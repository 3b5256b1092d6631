//===- runtime/plan/unread_parts.h - partial results that only their sum reads ----------------===//
//
// A kernel that adds parts while copying them need not store the parts. Storing them would cause as
// much memory traffic as the sum itself.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Sets PlanSum::keepsParts of each sum: true if the copied parts have another reader, such as a
/// command of this rank (including another sum), a peer that copies them, or the caller.
void markUnreadParts(Plan &plan);

} // namespace braid
