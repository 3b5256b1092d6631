//===- api/machine/topology.h - what joins devices, as far as it is known without measuring ---===//
#pragma once

#include "api/machine/nvml.h"

#include "llvm/ADT/ArrayRef.h"

namespace braid {

/// How two devices are joined, the best first.
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

/// What is known about the link between two devices without measuring it.
struct Link {
  LinkClass kind = LinkClass::Unknown;
  int64_t count = 0;        ///< NvLinks that are up
  double nominalGBps = 0;   ///< one way, from generation and width; 0: not known
  std::string noPeerAccess; ///< why the driver gives no peer access; empty: it does, or not known
};

/// One device of the machine.
struct MachineDevice {
  std::string name; ///< of the part
  std::string uuid; ///< unique; may be empty
  std::string pci;  ///< "0000:18:00.0"; may be empty
  int64_t numaNode = -1;
};

/// Devices, and what joins each to each.
struct Machine {
  std::vector<MachineDevice> devices;
  std::vector<std::vector<Link>> links; ///< from, to; from a device to itself: Own
};

/// The devices at these PCI addresses, in this order. A device that NVML does not know, or no NVML,
/// has only what /sys says about it; to it and from it links are Unknown: it may have NvLinks.
/// `root` stands before /sys.
Machine readMachine(llvm::ArrayRef<std::string> pciAddresses, const std::optional<NvmlReport> &nvml,
                    const std::string &root = "");
/// All devices of NVML, in its order.
Machine readMachine(const NvmlReport &nvml, const std::string &root = "");

/// Where a device is among bridges: "pci0000:15", "0000:15:01.0", "0000:16:00.0", ..., the device.
/// Empty if /sys has no such device.
std::vector<std::string> pciPath(const std::string &address, const std::string &root = "");
/// -1: not known.
int64_t numaNodeOf(const std::string &address, const std::string &root = "");
/// How two such paths are joined, as far as they say: PcieSwitch, HostBridge, or Unknown.
LinkClass joinOf(llvm::ArrayRef<std::string> a, llvm::ArrayRef<std::string> b);

/// Bytes a second one way, in 10^9; 0: not known. As published: of NvLinks, without what framing
/// takes; of PCIe, after its encoding and before its packets.
double nvLinkGBps(const NvmlDevice &device, const NvmlLink &link);
double pcieGBps(unsigned generation, unsigned width);

} // namespace braid
