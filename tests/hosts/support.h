//===- tests/hosts/support.h - Plans of programs for several hosts ----------------------------===//
#pragma once

#include "tests/support/checked.h"

#include <string>
#include <vector>

namespace braid::test {

/// Returns the commands of a rank's Plan, one per line.
std::string commandsOf(const Planned &of, size_t rank);

/// Returns a gather on `ranks` ranks in hosts of `ranksPerHost`.
std::string gatherOf(int64_t ranks, int64_t ranksPerHost);
std::string scatterOf(int64_t ranks, int64_t ranksPerHost);

} // namespace braid::test
