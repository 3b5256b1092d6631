//===- tests/hosts/support.h - Plans of programs of several hosts -----------------------------===//
#pragma once

#include "api/compile/plans.h"

#include <string>
#include <vector>

namespace braid::test {

/// A fusion or a program with the Plans of its ranks.
struct HostsCase {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
};

/// Fails the test if there are none. An empty schedule is the default.
HostsCase hostsCase(const std::string &text, const std::string &schedule = "",
                    const CompileOptions &options = {});
/// The commands of a rank's Plan, one a line.
std::string commandsOf(const HostsCase &of, size_t rank);

/// A gather on 6 devices in hosts of L.
std::string gatherOf(int64_t ranks, int64_t ranksPerHost);
std::string scatterOf(int64_t ranks, int64_t ranksPerHost);

} // namespace braid::test
