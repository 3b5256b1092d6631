//===- api/machine/topology.h - what joins devices, by what NVML says -------------------------===//
#pragma once

#include "api/machine/nvml.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// The kinds of links between two devices, the best first.
enum class LinkClass : uint8_t {
  Own,        ///< one device
  NvLink,     ///< directly, or through a switch
  PcieSwitch, ///< below one PCIe switch
  HostBridge, ///< below one root complex
  SameNuma,   ///< several root complexes of one NUMA node
  CrossNuma,  ///< over the link between sockets
  Unknown,
};
/// The word: "nvlink", "pcie-switch".
llvm::StringRef name(LinkClass kind);

/// Facts about the link between two devices that are known without measuring it.
struct Link {
  LinkClass kind = LinkClass::Unknown;
  double nominalGBps = 0; ///< one way, from generation and width; 0: not known
};

/// The links between all devices of NVML, in its order: from a device, to a device; from a device
/// to itself: Own.
std::vector<std::vector<Link>> linksOf(const NvmlReport &nvml);

} // namespace braid
