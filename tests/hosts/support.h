//===- tests/hosts/support.h - Plans of programs for several hosts ----------------------------===//
#pragma once

#include "tests/support/checked.h"

#include <string>
#include <vector>

namespace braid::test {

/// Returns the commands of a rank's Plan, one per line.
std::string commandsOf(const Planned &of, size_t rank);

/// Return a gather or a reduce-scatter on `ranks` ranks, on hosts with `ranksPerHost` ranks each.
std::string gatherOf(int64_t ranks, int64_t ranksPerHost);
std::string scatterOf(int64_t ranks, int64_t ranksPerHost);

} // namespace braid::test
