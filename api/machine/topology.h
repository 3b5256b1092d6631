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
  int64_t count = 0;        ///< NvLinks that are up
  double nominalGBps = 0;   ///< one way, from generation and width; 0: not known
  std::string noPeerAccess; ///< why the driver gives no peer access; empty: it does, or not known
};

/// One device of the machine.
struct MachineDevice {
  std::string name; ///< the part's name
  std::string uuid; ///< unique; may be empty
  std::string pci;  ///< "0000:18:00.0"; may be empty
  int64_t numaNode = -1;
};

/// Devices, and what joins each to each.
struct Machine {
  std::vector<MachineDevice> devices;
  std::vector<std::vector<Link>> links; ///< from, to; from a device to itself: Own
};

/// All devices of NVML, in its order. `root` is the prefix of /sys, which knows NUMA nodes.
Machine readMachine(const NvmlReport &nvml, const std::string &root = "");

} // namespace braid
