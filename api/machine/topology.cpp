//===- api/machine/topology.cpp - what joins devices, as far as it is known -------------------===//

#include "api/machine/topology.h"

#include "runtime/files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <array>

namespace braid {
namespace {

constexpr size_t kMostOfNumber = 32; ///< bytes of a file that holds one

std::string folderOf(const std::string &address, const std::string &root) {
  return root + "/sys/bus/pci/devices/" + address;
}

const NvmlDevice *deviceAt(const std::optional<NvmlReport> &nvml, const std::string &address,
                           size_t &index) {
  if (!nvml || address.empty())
    return nullptr;
  const auto found =
      llvm::find_if(nvml->devices, [&](const NvmlDevice &device) { return device.pci == address; });
  index = static_cast<size_t>(found - nvml->devices.begin());
  return found == nvml->devices.end() ? nullptr : &*found;
}

/// Links that are up from `from`: to `to`, or, of devices at switches, to any switch.
std::vector<const NvmlLink *> linksTo(const NvmlDevice &from, const NvmlDevice &to) {
  std::vector<const NvmlLink *> direct, switched;
  for (const NvmlLink &link : from.links) {
    if (!link.isUp)
      continue;
    if (!link.remote.empty() && link.remote == to.pci)
      direct.push_back(&link);
    else if (link.isToSwitch.value_or(false))
      switched.push_back(&link);
  }
  return direct.empty() ? switched : direct;
}

LinkClass classOf(CommonAncestor ancestor) {
  switch (ancestor) {
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

LinkClass ofNumaNodes(int64_t a, int64_t b) {
  if (a < 0 || b < 0)
    return LinkClass::Unknown;
  return a == b ? LinkClass::SameNuma : LinkClass::CrossNuma;
}

/// By the tree, or by what NVML says where a container does not show it.
LinkClass pcieClass(const MachineDevice &a, const MachineDevice &b, const NvmlPair &pair,
                    const std::string &root) {
  const LinkClass byTree = joinOf(pciPath(a.pci, root), pciPath(b.pci, root));
  if (byTree != LinkClass::Unknown)
    return byTree;
  if (pair.ancestor)
    return classOf(*pair.ancestor);
  return ofNumaNodes(a.numaNode, b.numaNode);
}

double pcieGBpsOf(const NvmlDevice &device) {
  return pcieGBps(device.mostPcieGeneration.value_or(device.pcieGeneration.value_or(0)),
                  device.pcieWidth.value_or(0));
}

std::string whyNoAccess(const NvmlPair &pair) {
  for (const std::optional<PeerStatus> &status : {pair.read, pair.write})
    if (status && !strOf(*status).empty())
      return strOf(*status);
  return "";
}

/// What the narrower end's links carry. A pair of which the driver denies NvLink has none, though
/// both are at switches: these may be in partitions.
bool fillNvLink(Link &link, const NvmlDevice &from, const NvmlDevice &to, const NvmlPair &pair) {
  const auto there = linksTo(from, to), back = linksTo(to, from);
  if (there.empty() || back.empty() || pair.nvLink.value_or(PeerStatus::Ok) != PeerStatus::Ok)
    return false;
  link.kind = LinkClass::NvLink;
  link.count = static_cast<int64_t>(std::min(there.size(), back.size()));
  link.nominalGBps = static_cast<double>(link.count) * nvLinkGBps(from, *there.front());
  return true;
}

Link linkBetween(const Machine &machine, size_t a, size_t b, const std::optional<NvmlReport> &nvml,
                 const std::string &root) {
  Link link;
  if (a == b) {
    link.kind = LinkClass::Own;
    return link;
  }
  size_t from = 0, to = 0;
  const NvmlDevice *source = deviceAt(nvml, machine.devices[a].pci, from);
  const NvmlDevice *destination = deviceAt(nvml, machine.devices[b].pci, to);
  if (!source || !destination)
    return link;
  const bool hasPairs = from < nvml->pairs.size() && to < nvml->pairs[from].size();
  static const NvmlPair kUnknown;
  const NvmlPair &pair = hasPairs ? nvml->pairs[from][to] : kUnknown;
  link.noPeerAccess = whyNoAccess(pair);
  if (fillNvLink(link, *source, *destination, pair))
    return link;
  link.kind = pcieClass(machine.devices[a], machine.devices[b], pair, root);
  link.nominalGBps = std::min(pcieGBpsOf(*source), pcieGBpsOf(*destination));
  return link;
}

/// NVML's numbers of versions, and what a link of each carries.
struct LinkVersion {
  unsigned version;
  double GBps;
};
constexpr std::array<LinkVersion, 7> kLinkVersions = {
    {{1, 20}, {2, 25}, {3, 25}, {4, 25}, {5, 25}, {6, 25}, {7, 50}}};

/// What a link signals, in MB/s, at least, and what it carries. Signals include framing: 26,562 of
/// an H100's.
struct LinkSpeed {
  unsigned leastMBps;
  double GBps;
};
constexpr std::array<LinkSpeed, 5> kLinkSpeeds = {
    {{100000, 100}, {50000, 50}, {25000, 25}, {19000, 20}, {1, 14.0625}}};

constexpr llvm::StringRef kLinkNames[] = {"own",       "nvlink",     "pcie-switch", "host-bridge",
                                          "same-numa", "cross-numa", "unknown"};
static_assert(std::size(kLinkNames) == static_cast<size_t>(LinkClass::Unknown) + 1);

} // namespace

llvm::StringRef name(LinkClass kind) { return kLinkNames[static_cast<size_t>(kind)]; }

std::vector<std::string> pciPath(const std::string &address, const std::string &root) {
  llvm::SmallString<128> real;
  if (address.empty() || llvm::sys::fs::real_path(folderOf(address, root), real))
    return {};
  std::vector<std::string> path;
  llvm::SmallVector<llvm::StringRef> parts;
  real.str().rsplit("/devices/").second.split(parts, '/', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts)
    path.push_back(part.str());
  return path;
}

int64_t numaNodeOf(const std::string &address, const std::string &root) {
  const Result<std::string> text = readFile(folderOf(address, root) + "/numa_node", kMostOfNumber);
  int64_t node = -1;
  if (address.empty() || !text || llvm::StringRef(*text).trim().getAsInteger(10, node))
    return -1;
  return std::max<int64_t>(node, -1);
}

LinkClass joinOf(llvm::ArrayRef<std::string> a, llvm::ArrayRef<std::string> b) {
  size_t common = 0;
  while (common < std::min(a.size(), b.size()) && a[common] == b[common])
    ++common;
  if (common == 0)
    return LinkClass::Unknown;
  return common == 1 ? LinkClass::HostBridge : LinkClass::PcieSwitch;
}

double nvLinkGBps(const NvmlDevice &device, const NvmlLink &link) {
  if (device.linkMBps)
    for (const LinkSpeed &speed : kLinkSpeeds)
      if (*device.linkMBps >= speed.leastMBps)
        return speed.GBps;
  for (const LinkVersion &version : kLinkVersions)
    if (link.version == version.version)
      return version.GBps;
  return 0;
}

double pcieGBps(unsigned generation, unsigned width) {
  // GT/s of a lane, times what the encoding leaves, over 8 bits.
  constexpr std::array<double, 7> kLane = {0,
                                           2.5 * 0.8 / 8,
                                           5 * 0.8 / 8,
                                           8 * 128.0 / 130 / 8,
                                           16 * 128.0 / 130 / 8,
                                           32 * 128.0 / 130 / 8,
                                           64 * 242.0 / 256 / 8};
  return generation < kLane.size() ? kLane[generation] * width : 0;
}

Machine readMachine(llvm::ArrayRef<std::string> pciAddresses, const std::optional<NvmlReport> &nvml,
                    const std::string &root) {
  Machine machine;
  for (const std::string &given : pciAddresses) {
    const std::string address = normalizedPci(given);
    size_t index = 0;
    const NvmlDevice *device = deviceAt(nvml, address, index);
    machine.devices.push_back({.name = device ? device->name : "",
                               .uuid = device ? device->uuid : "",
                               .pci = address,
                               .numaNode = numaNodeOf(address, root)});
  }
  for (size_t a = 0; a < machine.devices.size(); ++a) {
    std::vector<Link> &links = machine.links.emplace_back();
    for (size_t b = 0; b < machine.devices.size(); ++b)
      links.push_back(linkBetween(machine, a, b, nvml, root));
  }
  return machine;
}

Machine readMachine(const NvmlReport &nvml, const std::string &root) {
  std::vector<std::string> addresses;
  for (const NvmlDevice &device : nvml.devices)
    addresses.push_back(device.pci);
  return readMachine(addresses, nvml, root);
}

} // namespace braid
