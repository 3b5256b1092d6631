//===- tests/hosts/support.h - Plans of programs of several hosts -----------------------------===//
#pragma once

#include "tests/support/checked.h"

#include <string>
#include <vector>

namespace braid::test {

/// The commands of a rank's Plan, one a line.
std::string commandsOf(const Planned &of, size_t rank);

/// A gather on 6 devices in hosts of L.
std::string gatherOf(int64_t ranks, int64_t ranksPerHost);
std::string scatterOf(int64_t ranks, int64_t ranksPerHost);

} // namespace braid::test
