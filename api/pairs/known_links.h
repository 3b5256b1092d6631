//===- api/pairs/known_links.h - what is known about measured devices from elsewhere ----------===//
#pragma once

#include "api/machine/topology.h"
#include "api/pairs/pair_report.h"

namespace braid {

/// Puts places and links into the report of those devices that `machine` has, too, by their uuid.
void addKnownLinks(PairReport &report, const Machine &machine);

} // namespace braid
