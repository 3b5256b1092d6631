//===- api/machine/topology.cpp - what joins devices, by what NVML says -----------------------===//

#include "api/machine/topology.h"

#include "runtime/files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace braid {
namespace {

/// -1: unknown.
int64_t numaNodeOf(const std::string &pci, const std::string &root) {
  const Result<std::string> text =
      readFile(root + "/sys/bus/pci/devices/" + pci + "/numa_node", /*mostBytes=*/32);
  int64_t node = -1;
  return text && !llvm::StringRef(*text).trim().getAsInteger(10, node) ? node : -1;
}

/// The NvLinks from one device to another that are up; for devices at switches, all to a switch.
int64_t linksBetween(const NvmlDevice &from, const NvmlDevice &to) {
  const int64_t direct = llvm::count_if(from.links, [&](const NvmlLink &link) {
    return link.isUp && !link.remote.empty() && link.remote == to.pci;
  });
  const int64_t switched =
      llvm::count_if(from.links, [](const NvmlLink &link) { return link.isUp && link.isToSwitch; });
  return direct > 0 ? direct : switched;
}

/// The payload rate of an NvLink, one way, from its signalling rate, which includes framing: an
/// H100 signals 26,562 MB/s.
double nvLinkGBps(const NvmlDevice &device) {
  constexpr std::pair<unsigned, double> kSpeeds[] = {
      {100000, 100}, {50000, 50}, {25000, 25}, {19000, 20}, {1, 14.0625}};
  for (const auto &[leastMBps, GBps] : kSpeeds)
    if (device.linkMBps.value_or(0) >= leastMBps)
      return GBps;
  return 0;
}

/// GT/s of each lane after the encoding, over 8 bits.
double pcieGBps(const NvmlDevice &device) {
  constexpr double kLane[] = {0,
                              2.5 * 0.8 / 8,
                              5 * 0.8 / 8,
                              8 * 128.0 / 130 / 8,
                              16 * 128.0 / 130 / 8,
                              32 * 128.0 / 130 / 8,
                              64 * 242.0 / 256 / 8};
  const unsigned generation = device.mostPcieGeneration.value_or(0);
  return generation < std::size(kLane) ? kLane[generation] * device.pcieWidth.value_or(0) : 0;
}

LinkClass classOf(std::optional<CommonAncestor> ancestor) {
  if (!ancestor)
    return LinkClass::Unknown;
  switch (*ancestor) {
  case CommonAncestor::Board:
  case CommonAncestor::OneSwitch:
  case CommonAncestor::Switches:
    return LinkClass::PcieSwitch;
  case CommonAncestor::HostBridge:
    return LinkClass::HostBridge;
  case CommonAncestor::NumaNode:
    return LinkClass::SameNuma;
  case CommonAncestor::System:
    return LinkClass::CrossNuma;
  }
  return LinkClass::Unknown;
}

/// A pair whose NvLink the driver denies has none, though both may be at switches.
Link linkBetween(const NvmlDevice &from, const NvmlDevice &to, const NvmlPair &pair) {
  Link link;
  link.noPeerAccess = pair.refusal;
  const int64_t count = std::min(linksBetween(from, to), linksBetween(to, from));
  if (count > 0 && pair.mayUseNvLink.value_or(true)) {
    link.kind = LinkClass::NvLink;
    link.count = count;
    link.nominalGBps = static_cast<double>(count) * nvLinkGBps(from);
  } else {
    link.kind = classOf(pair.ancestor);
    link.nominalGBps = std::min(pcieGBps(from), pcieGBps(to));
  }
  return link;
}

constexpr llvm::StringRef kLinkNames[] = {"own",       "nvlink",     "pcie-switch", "host-bridge",
                                          "same-numa", "cross-numa", "unknown"};
static_assert(std::size(kLinkNames) == static_cast<size_t>(LinkClass::Unknown) + 1);

} // namespace

llvm::StringRef name(LinkClass kind) { return kLinkNames[static_cast<size_t>(kind)]; }

Machine readMachine(const NvmlReport &nvml, const std::string &root) {
  Machine machine;
  for (size_t a = 0; a < nvml.devices.size(); ++a) {
    const NvmlDevice &from = nvml.devices[a];
    machine.devices.push_back({.name = from.name,
                               .uuid = from.uuid,
                               .pci = from.pci,
                               .numaNode = numaNodeOf(from.pci, root)});
    std::vector<Link> &links = machine.links.emplace_back();
    for (size_t b = 0; b < nvml.devices.size(); ++b)
      links.push_back(a == b ? Link{.kind = LinkClass::Own, .noPeerAccess = {}}
                             : linkBetween(from, nvml.devices[b], nvml.pairs[a][b]));
  }
  return machine;
}

} // namespace braid
