//===- api/machine/topology.h - links between devices, as reported by NVML --------------------===//
#pragma once

#include "api/machine/nvml.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// The kinds of links between two devices, the best first.
enum class LinkClass : uint8_t {
  Own,        ///< the same device
  NvLink,     ///< directly, or through a switch
  PcieSwitch, ///< below one PCIe switch
  HostBridge, ///< below one root complex
  SameNuma,   ///< several root complexes of one NUMA node
  CrossNuma,  ///< over the link between sockets
  Unknown,
};
/// Returns a name such as "nvlink" or "pcie-switch".
llvm::StringRef name(LinkClass kind);

/// The properties of a link between two devices that are known without measuring.
struct Link {
  LinkClass kind = LinkClass::Unknown;
  double nominalGBps = 0; ///< one way, from generation and width; 0 if unknown
};

/// Returns the links between all devices of NVML, in its order: [source][destination]. The link of
/// a device to itself is Own.
std::vector<std::vector<Link>> linksOf(const NvmlReport &nvml);

} // namespace braid
