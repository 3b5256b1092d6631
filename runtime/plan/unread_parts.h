//===- runtime/plan/unread_parts.h - partial results that only their sum reads ----------------===//
#pragma once

#include "runtime/plan/plan.h"

namespace braid {

/// Says of each sum whether something besides sums reads what copies bring as its parts
/// (PlanSum::keepsParts): a command of this rank, or a peer that pulls.
void markUnreadParts(Plan &plan);

} // namespace braid
