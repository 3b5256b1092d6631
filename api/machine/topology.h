//===- api/machine/topology.h - links between devices, as reported by NVML --------------------===//
#pragma once

#include "api/machine/nvml.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// The kinds of links between two devices, best first.
enum class LinkClass : uint8_t {
  Own,        ///< the same device
  NvLink,     ///< NVLink, directly or through a switch
  PcieSwitch, ///< through PCIe switches only
  HostBridge, ///< through one root complex
  SameNuma,   ///< through several root complexes on one NUMA node
  CrossNuma,  ///< through the interconnect between sockets
  Unknown,
};
/// Returns a name such as "nvlink" or "pcie-switch".
llvm::StringRef name(LinkClass kind);

/// The properties of a link between two devices that are known without a measurement.
struct Link {
  LinkClass kind = LinkClass::Unknown;
  double nominalGBps = 0; ///< nominal rate, one way; 0 if unknown
};

/// Returns the links between all devices in NVML's order, as [source][destination]. The link from a
/// device to itself is Own.
std::vector<std::vector<Link>> linksOf(const NvmlReport &nvml);

} // namespace braid
