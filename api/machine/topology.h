//===- api/machine/topology.h - what joins devices, by what NVML says -------------------------===//
#pragma once

#include "api/machine/nvml.h"
#include "api/pairs/pair_report.h"

namespace braid {

/// Devices, and what joins each to each.
struct Machine {
  std::vector<MachineDevice> devices;
  std::vector<std::vector<Link>> links; ///< from, to; from a device to itself: Own
};

/// All devices of NVML, in its order. `root` is the prefix of /sys, which knows NUMA nodes.
Machine readMachine(const NvmlReport &nvml, const std::string &root = "");

} // namespace braid
