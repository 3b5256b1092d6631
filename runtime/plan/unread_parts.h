//===- runtime/plan/unread_parts.h - partial results that only their sum reads ----------------===//
//
// A kernel that adds what it pulls, as it comes, has no need to store it, which would take as much
// memory traffic as the sum.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Says of each sum whether anything else reads what copies bring as its parts
/// (PlanSum::keepsParts): another command of this rank, another sum too, a peer that pulls, or the
/// caller.
void markUnreadParts(Plan &plan);

} // namespace braid
