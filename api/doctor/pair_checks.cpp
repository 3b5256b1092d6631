//===- api/doctor/pair_checks.cpp - whether GPUs reach each other, and why not ----------------===//

#include "api/doctor/check.h"

#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

struct Pair {
  size_t a, b; ///< NVML's numbers
};

std::vector<Pair> pairsOf(const Facts &facts) {
  std::vector<Pair> pairs;
  const std::vector<size_t> shown = shownGpus(facts);
  for (size_t a = 0; a < shown.size(); ++a)
    for (size_t b = a + 1; b < shown.size(); ++b)
      pairs.push_back({shown[a], shown[b]});
  return pairs;
}

std::optional<int64_t> cudaDevice(const Facts &facts, size_t index) {
  return cudaNumberOf(facts, facts.nvml.value->devices[index].pci);
}

/// What CUDA says of both directions, the worse one; nothing if it was not asked.
std::optional<bool> hasAccess(const Facts &facts, const Pair &pair) {
  const auto a = cudaDevice(facts, pair.a), b = cudaDevice(facts, pair.b);
  if (!a || !b)
    return std::nullopt;
  const auto there = facts.cudaNumber(fmt::format("{}.access.{}", *a, *b));
  const auto back = facts.cudaNumber(fmt::format("{}.access.{}", *b, *a));
  if (!there && !back)
    return std::nullopt;
  return there.value_or(1) != 0 && back.value_or(1) != 0;
}

const Link &linkOf(const Facts &facts, const Pair &pair) {
  return facts.machine.links[pair.a][pair.b];
}

/// What the driver says, or what else is known to stop it.
std::string reasonOf(const Facts &facts, const Pair &pair) {
  const std::string &said = linkOf(facts, pair).noPeerAccess;
  const std::string &back = facts.machine.links[pair.b][pair.a].noPeerAccess;
  if (!said.empty() || !back.empty())
    return said.empty() ? back : said;
  for (size_t index : {pair.a, pair.b})
    if (facts.nvml.value->devices[index].mig.value_or(false))
      return "MIG divides one of them";
  if (linkOf(facts, pair).kind == LinkClass::CrossNuma)
    return "they are at different processors";
  return "the driver does not say why";
}

void lookAtAccess(const Facts &facts, Lines &lines) {
  int64_t reachable = 0;
  for (const Pair &pair : pairsOf(facts)) {
    const bool isDenied = !linkOf(facts, pair).noPeerAccess.empty();
    if (hasAccess(facts, pair).value_or(!isDenied))
      ++reachable;
    else
      lines.add("none", gpuName(facts, pair.a), gpuName(facts, pair.b), reasonOf(facts, pair));
  }
  if (lines.count() == 0 && reachable > 0)
    lines.add("all", reachable);
}

/// NvLink goes past bridges and root complexes.
bool isOverPcie(const Facts &facts, const Pair &pair) {
  return linkOf(facts, pair).kind != LinkClass::NvLink;
}

bool isApart(LinkClass kind) { return kind == LinkClass::SameNuma || kind == LinkClass::CrossNuma; }

void lookAtRoots(const Facts &facts, Lines &lines) {
  for (const Pair &pair : pairsOf(facts))
    if (isApart(linkOf(facts, pair).kind))
      lines.add("different", gpuName(facts, pair.a), gpuName(facts, pair.b));
}

const PciGpu *pciGpu(const Facts &facts, size_t index) {
  for (const PciGpu &gpu : facts.gpus)
    if (gpu.address == facts.nvml.value->devices[index].pci)
      return &gpu;
  return nullptr;
}

/// The bridges between the two that redirect: those above one of them alone.
std::vector<std::string> redirectingBetween(const PciGpu &a, const PciGpu &b) {
  std::vector<std::string> bridges;
  for (const auto &[gpu, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const std::string &bridge : gpu->redirecting)
      if (!llvm::is_contained(other->bridges, bridge))
        bridges.push_back(bridge);
  return bridges;
}

void lookAtAcs(const Facts &facts, Lines &lines) {
  for (const Pair &pair : pairsOf(facts)) {
    const PciGpu *a = pciGpu(facts, pair.a), *b = pciGpu(facts, pair.b);
    if (!a || !b || !isOverPcie(facts, pair))
      continue;
    const std::vector<std::string> bridges = redirectingBetween(*a, *b);
    if (!bridges.empty())
      lines.add("redirects", gpuName(facts, pair.a), gpuName(facts, pair.b),
                llvm::join(bridges, ", "));
  }
}

/// One that hands addresses through, type "identity", does no harm. One GPU has no peers.
void lookAtIommu(const Facts &facts, Lines &lines) {
  size_t shown = 0;
  std::vector<std::string> translated;
  for (const PciGpu &gpu : facts.gpus) {
    if (isHidden(facts, gpu.address))
      continue;
    ++shown;
    if (llvm::StringRef(gpu.iommu).take_front(3) == "DMA")
      translated.push_back(gpu.address);
  }
  if (shown > 1 && !translated.empty())
    lines.add("translates", llvm::join(translated, ", "));
}

} // namespace

std::vector<Check> pairChecks() {
  using enum Severity;
  return {
      {.name = "peer-access",
       .needsGpu = true,
       .lines = {{"none", Problem, "{0} and {1} do not reach each other's memory: {2}",
                  "use --backend nccl, or leave one of them out by CUDA_VISIBLE_DEVICES"},
                 {"all", Ok, "the GPUs of {0} pairs reach each other's memory", ""}},
       .look = lookAtAccess,
       .explains =
           [](const Failure &failure) {
             return failure.mentions({"peer access", "PeerAccess", "cudaIpcOpenMemHandle"});
           }},
      {.name = "root-complex",
       .needsGpu = true,
       .lines = {{"different", Note, "{0} and {1} are below different root complexes",
                  "without NvLink what one writes to the other goes through processors, slowly"}},
       .look = lookAtRoots},
      {.name = "acs",
       .needsGpu = true,
       .lines = {{"redirects", Note,
                  "bridges between {0} and {1} redirect what they send to each other (ACS): {2}",
                  "it is slow, and lost on some machines: switch ACS off in the firmware or by "
                  "setpci"}},
       .look = lookAtAcs},
      {.name = "iommu",
       .needsGpu = true,
       .lines = {{"translates", Note, "an IOMMU translates what GPUs send: {0}",
                  "on machines that are not virtual, start Linux with iommu=pt: data between GPUs "
                  "may be slow or wrong"}},
       .look = lookAtIommu},
  };
}

} // namespace braid::doctor
