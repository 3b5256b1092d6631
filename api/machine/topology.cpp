//===- api/machine/topology.cpp - links between devices, as reported by NVML ------------------===//

#include "api/machine/topology.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace braid {
namespace {

/// Returns the number of active NVLinks from `from` to `to`, or, if there are none, to switches.
int64_t linksBetween(const NvmlDevice &from, const NvmlDevice &to) {
  const int64_t direct = llvm::count_if(from.links, [&](const NvmlLink &link) {
    return link.isUp && !link.remote.empty() && link.remote == to.pci;
  });
  const int64_t switched =
      llvm::count_if(from.links, [](const NvmlLink &link) { return link.isUp && link.isToSwitch; });
  return direct > 0 ? direct : switched;
}

/// Returns the payload rate of one NVLink, one way, in GB/s, or 0 if unknown. NVML reports the
/// signaling rate, which includes framing: 26,562 MB/s on H100.
double nvLinkGBps(const NvmlDevice &device) {
  constexpr std::pair<unsigned, double> kSpeeds[] = {
      {100000, 100}, {50000, 50}, {25000, 25}, {19000, 20}, {1, 14.0625}};
  for (const auto &[leastMBps, GBps] : kSpeeds)
    if (device.linkMBps.value_or(0) >= leastMBps)
      return GBps;
  return 0;
}

/// Returns the PCIe rate in GB/s, one way. A lane's rate in Gbit/s is GT/s * encoding efficiency.
double pcieGBps(const NvmlDevice &device) {
  constexpr double kCoded = 128.0 / 130; // efficiency of generations 3 to 5
  constexpr double kLane[] = {0,           2.5 * 0.8,   5 * 0.8,         8 * kCoded,
                              16 * kCoded, 32 * kCoded, 64 * 242.0 / 256};
  const unsigned generation = device.mostPcieGeneration.value_or(0);
  return generation < std::size(kLane) ? kLane[generation] / 8 * device.pcieWidth.value_or(0) : 0;
}

/// Converts an nvmlGpuTopologyLevel_t: 0 is a board, 10 a single PCIe switch, 20 several PCIe
/// switches, 30 a root complex, 40 a NUMA node, and 50 the whole machine.
LinkClass classOf(std::optional<unsigned> level) {
  constexpr LinkClass kClasses[] = {LinkClass::PcieSwitch, LinkClass::PcieSwitch,
                                    LinkClass::PcieSwitch, LinkClass::HostBridge,
                                    LinkClass::SameNuma,   LinkClass::CrossNuma};
  if (!level || *level % 10 != 0 || *level / 10 >= std::size(kClasses))
    return LinkClass::Unknown;
  return kClasses[*level / 10];
}

/// Ignores NVLinks if the driver reports that the two devices cannot use NVLink.
Link linkBetween(const NvmlDevice &from, const NvmlDevice &to, const NvmlPair &pair) {
  const int64_t count = std::min(linksBetween(from, to), linksBetween(to, from));
  if (count > 0 && pair.mayUseNvLink.value_or(true))
    return {LinkClass::NvLink, static_cast<double>(count) * nvLinkGBps(from)};
  return {classOf(pair.ancestor), std::min(pcieGBps(from), pcieGBps(to))};
}

constexpr llvm::StringRef kLinkNames[] = {"own",       "nvlink",     "pcie-switch", "host-bridge",
                                          "same-numa", "cross-numa", "unknown"};
static_assert(std::size(kLinkNames) == static_cast<size_t>(LinkClass::Unknown) + 1);

} // namespace

llvm::StringRef name(LinkClass kind) { return kLinkNames[static_cast<size_t>(kind)]; }

std::vector<std::vector<Link>> linksOf(const NvmlReport &nvml) {
  std::vector<std::vector<Link>> links(nvml.devices.size());
  for (size_t from = 0; from < links.size(); ++from)
    for (size_t to = 0; to < links.size(); ++to)
      links[from].push_back(
          from == to ? Link{.kind = LinkClass::Own}
                     : linkBetween(nvml.devices[from], nvml.devices[to], nvml.pairs[from][to]));
  return links;
}

} // namespace braid
