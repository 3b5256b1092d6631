//===- api/doctor/gpu_checks.cpp - drivers, libraries, each GPU, and pairs of GPUs ------------===//

#include "api/doctor/check.h"

#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

// -- Driver and libraries. --

std::string addressesOf(const Facts &facts) {
  std::vector<std::string> addresses;
  for (const Gpu &gpu : facts.gpus)
    addresses.push_back(gpu.pci);
  return llvm::join(addresses, ", ");
}

/// Returns "13.0" for 13000.
std::string versionText(int64_t version) {
  return version == 0 ? "an unknown version"
                      : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void findGpus(const Facts &facts, Lines &lines) {
  if (!facts.hasGpu())
    return lines.ok("none", "no GPU of NVIDIA's here; ranks run on cpu and null");
  std::vector<std::string> names, hidden;
  for (const Gpu &gpu : facts.gpus)
    if (gpu.isHidden)
      hidden.push_back(gpu.pci);
    else
      names.push_back(gpu.nvml.name.empty() ? gpu.name : gpu.name + ": " + gpu.nvml.name);
  if (!names.empty())
    lines.ok("found", "{0}", llvm::join(names, ", "));
  if (!hidden.empty())
    lines.ok("hidden", "hidden by CUDA_VISIBLE_DEVICES, and not checked: {0}",
             llvm::join(hidden, ", "));
}

void checkDriver(const Facts &facts, Lines &lines) {
  const bool hasNvml = facts.nvml.value.has_value();
  const int64_t ofNvml = hasNvml ? facts.nvml.value->cudaVersion : 0;
  const int64_t asked = facts.cudaNumber("driver").value_or(0);
  const int64_t cuda = asked != 0 ? asked : ofNvml;
  const int64_t needed = facts.cudaNumber("runtime").value_or(0) / 1000 * 1000;
  if (facts.kernelDriver.empty() && !hasNvml && cuda == 0)
    return lines.problem("missing", "a GPU ({0}), but no NVIDIA driver",
                         "install NVIDIA's driver, or start the container with the GPUs (docker "
                         "run --gpus all)",
                         addressesOf(facts));
  if (llvm::StringRef(facts.nvml.error).contains("not of the version of the driver"))
    return lines.problem("mismatch",
                         "the driver's libraries are not of the version that is loaded ({0})",
                         "restart the machine after updating the driver; in a container, restart "
                         "that",
                         facts.kernelDriver);
  if (facts.deviceFiles == 0 && !hasNvml)
    return lines.problem("no-devices", "the driver is loaded ({0}), but there is no /dev/nvidia0",
                         "start the container with the GPUs (docker run --gpus all), or run "
                         "nvidia-smi as root once",
                         facts.kernelDriver);
  if (cuda != 0 && cuda < needed)
    return lines.problem("too-old", "the driver supports CUDA {0}, but this program needs CUDA {1}",
                         "update the driver, or put NVIDIA's cuda-compat before it in "
                         "LD_LIBRARY_PATH",
                         versionText(cuda), versionText(needed));
  const std::string version = hasNvml ? facts.nvml.value->driver : "";
  lines.ok("found", "{0}, which supports CUDA {1}", version.empty() ? facts.kernelDriver : version,
           versionText(cuda));
}

void checkNvml(const Facts &facts, Lines &lines) {
  if (facts.nvml.value)
    lines.ok("found", "{0}", facts.nvml.value->library);
  else if (facts.nvml.isLate)
    lines.problem("hung", "{0}", "look for Xid in dmesg; reset the GPU or restart the machine",
                  facts.nvml.error);
  else
    lines.note("missing", "{0}",
               "power, clocks, links and errors are unknown; let BRAID_NVML_LIBRARY name "
               "libnvidia-ml.so.1, or unset it",
               facts.nvml.error);
}

void checkVisible(const Facts &facts, Lines &lines) {
  const auto found = facts.variables.find("CUDA_VISIBLE_DEVICES");
  if (found == facts.variables.end() || !facts.cuda.value)
    return;
  const std::string value = printable(found->second, 60);
  const auto existing = static_cast<int64_t>(facts.gpus.size());
  if (llvm::StringRef(value).trim().empty())
    lines.problem("hidden", "CUDA_VISIBLE_DEVICES is '{0}', which hides every GPU",
                  "unset CUDA_VISIBLE_DEVICES, or name GPUs", value);
  else if (facts.cudaDevices() == 0)
    lines.problem("unknown", "CUDA_VISIBLE_DEVICES is '{0}', of which CUDA knows no GPU",
                  "name GPUs that nvidia-smi -L lists", value);
  else if (facts.cudaDevices() < existing)
    lines.note("fewer", "CUDA_VISIBLE_DEVICES is '{0}': programs see {1} of {2} GPUs",
               "unset it if all are meant; entries after one that is no GPU do not count", value,
               facts.cudaDevices(), existing);
}

void checkCuda(const Facts &facts, Lines &lines) {
  if (!facts.hasCuda)
    return lines.note("not-built", "this build of braid has no cuda backend",
                      "build it with CUDA's compiler, or install the package that has it");
  if (facts.cuda.isLate)
    return lines.problem("hung", "{0}",
                         "look for Xid in dmesg; reset the GPU or restart the machine",
                         facts.cuda.error);
  checkVisible(facts, lines);
  if (facts.cudaDevices() > 0)
    lines.ok("found", "CUDA {0} sees {1} of them",
             versionText(facts.cudaNumber("runtime").value_or(0)), facts.cudaDevices());
  else if (lines.isEmpty())
    lines.problem("none", "CUDA sees no GPU: {0}",
                  "run nvidia-smi; if it sees one, look at limits and devices of this container",
                  facts.cudaText("why none"));
}

void checkCublasLt(const Facts &facts, Lines &lines) {
  if (const std::string error = facts.cudaText("cublaslt error"); !error.empty())
    lines.problem("missing", "{0}",
                  "install cuBLAS of CUDA {1}, or put its folder into LD_LIBRARY_PATH", error,
                  facts.cudaNumber("runtime").value_or(0) / 1000);
  else if (const std::string version = facts.cudaText("cublaslt version"); !version.empty())
    lines.ok("found", "cuBLASLt {0} ({1})", version, facts.cudaText("cublaslt file"));
}

void checkNccl(const Facts &facts, Lines &lines) {
  if (!facts.nccl.value)
    return;
  BackendFacts nccl = *facts.nccl.value;
  if (!nccl["error"].empty() && !facts.variable("BRAID_NCCL_LIBRARY").empty())
    return lines.problem("wrong", "{0}", "unset BRAID_NCCL_LIBRARY, or name libnccl.so.2",
                         nccl["error"]);
  if (!nccl["error"].empty())
    return lines.note("missing", "{0}",
                      "only --backend nccl and --transport messages need it: install NCCL, or "
                      "nvidia-nccl of PyPI",
                      nccl["error"]);
  lines.ok("found", "NCCL {0} ({1})", nccl["version"], nccl["file"]);
}

// -- Each GPU. --

void checkMode(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus()) {
    const ComputeMode mode = gpu.nvml.computeMode.value_or(ComputeMode::Shared);
    if (mode == ComputeMode::Prohibited)
      lines.problem("prohibited", "{0} admits no programs: its compute mode is prohibited",
                    "nvidia-smi -c DEFAULT, as root", gpu.name);
    else if (mode != ComputeMode::Shared && facts.variable("BRAID_SHARE_GPUS") == "on")
      lines.problem("not-shared",
                    "{0} admits one process, but BRAID_SHARE_GPUS=on lets several use it",
                    "nvidia-smi -c DEFAULT, as root, or unset BRAID_SHARE_GPUS", gpu.name);
    else if (mode != ComputeMode::Shared)
      lines.note("exclusive", "{0} admits one process: its compute mode is exclusive",
                 "nothing else may use it meanwhile; nvidia-smi -c DEFAULT, as root, lifts that",
                 gpu.name);
  }
}

void checkMig(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus())
    if (gpu.nvml.mig.value_or(false))
      lines.note("on", "{0} is divided (MIG); its parts cannot reach each other's memory",
                 "for several ranks: nvidia-smi -mig 0, as root", gpu.name);
}

void checkSharing(const Facts &facts, Lines &lines) {
  for (int64_t device = 0; device < facts.cudaDevices(); ++device) {
    auto isDenied = [&](const char *what) {
      return facts.cudaNumber(fmt::format("{}.{}", device, what)) == 0;
    };
    if (isDenied("ipc"))
      lines.problem("no-ipc", "CUDA's device {0} exports no memory by CUDA IPC",
                    "--backend cuda needs that; use --backend nccl", device);
    if (isDenied("vmm") || isDenied("fd"))
      lines.note("no-descriptors", "CUDA's device {0} exports no memory as file descriptors",
                 "use memory of CUDA IPC", device);
  }
  if (facts.cudaDevices() > 0 && lines.isEmpty())
    lines.ok("fine", "{0} GPUs export memory by CUDA IPC and as file descriptors",
             facts.cudaDevices());
}

void checkPower(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus())
    if (gpu.nvml.powerLimit && gpu.nvml.defaultPowerLimit &&
        *gpu.nvml.powerLimit < *gpu.nvml.defaultPowerLimit)
      lines.note("capped", "{0} may draw {1:.0f} W of {2:.0f} W by default",
                 "GEMMs get slower: nvidia-smi -pl {2:.0f}, as root, lifts that", gpu.name,
                 *gpu.nvml.powerLimit, *gpu.nvml.defaultPowerLimit);
}

constexpr std::pair<ClockReason, const char *> kThrottles[] = {
    {ClockReason::PowerCap, "the power cap"},
    {ClockReason::Heat, "heat (software)"},
    {ClockReason::HardwareHeat, "heat (hardware)"},
    {ClockReason::PowerBrake, "the power supply's brake"},
    {ClockReason::Hardware, "a slowdown by hardware"},
    {ClockReason::SyncBoost, "another GPU, by sync boost"},
};

void checkClocks(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus()) {
    auto hasReason = [&](ClockReason reason) {
      return (gpu.nvml.clockReasons.value_or(0) & static_cast<uint64_t>(reason)) != 0;
    };
    const unsigned clock = gpu.nvml.smClock.value_or(0), most = gpu.nvml.mostSmClock.value_or(0);
    std::vector<std::string> reasons;
    for (const auto &[reason, text] : kThrottles)
      if (hasReason(reason))
        reasons.push_back(text);
    if (!reasons.empty())
      lines.note("throttled", "{0} runs slower because of {1}: {2} MHz of {3} MHz",
                 "look at power and cooling; times that are measured now say little", gpu.name,
                 llvm::join(reasons, ", "), clock, most);
    if (hasReason(ClockReason::Setting))
      lines.note("set", "somebody has set the clocks of {0}: {1} MHz of {2} MHz",
                 "nvidia-smi -rgc and -rac, as root, undo that", gpu.name, clock, most);
  }
}

void checkEcc(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus()) {
    if (gpu.nvml.ecc == false)
      lines.note("off", "{0} runs without ECC", "results may be wrong and nobody sees it",
                 gpu.name);
    if (gpu.nvml.uncorrected.value_or(0) > 0)
      lines.problem("errors", "{0} had {1} uncorrectable memory errors since it started",
                    "stop what uses it and nvidia-smi -r, as root; if they come again, replace it",
                    gpu.name, *gpu.nvml.uncorrected);
    else if (gpu.nvml.uncorrectedEver.value_or(0) > 0)
      lines.note("errors-before", "{0} has had {1} uncorrectable memory errors in its life",
                 "watch whether there are more: nvidia-smi -q -d ECC,ROW_REMAPPER", gpu.name,
                 *gpu.nvml.uncorrectedEver);
  }
}

void checkNvLink(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus()) {
    const auto down =
        llvm::count_if(gpu.nvml.links, [](const NvmlLink &link) { return !link.isUp; });
    const auto all = static_cast<int64_t>(gpu.nvml.links.size());
    if (down > 0 && down < all)
      lines.note("down", "{1} of {2} NvLinks of {0} are down",
                 "nvidia-smi nvlink -s; the fabric manager has to run where there are switches",
                 gpu.name, down, all);
    for (const NvmlLink &link : gpu.nvml.links)
      if (link.errors > 0)
        lines.note("errors", "NvLink {1} of {0} had {2} errors: replays, recoveries or checksums",
                   "if they go on, it is slow or fails: nvidia-smi nvlink -e", gpu.name,
                   link.number, link.errors);
  }
}

/// An idle device reduces the generation of its link, but never the width.
void checkPcie(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus())
    if (gpu.nvml.pcieWidth && gpu.nvml.mostPcieWidth &&
        *gpu.nvml.pcieWidth < *gpu.nvml.mostPcieWidth)
      lines.note("narrow", "{0} is connected by PCIe x{1}, though it has x{2}",
                 "reseat it, or use another slot", gpu.name, *gpu.nvml.pcieWidth,
                 *gpu.nvml.mostPcieWidth);
}

// -- Pairs of GPUs. --

void forEachPair(const Facts &facts, llvm::function_ref<void(const Gpu &, const Gpu &)> look) {
  const std::vector<Gpu> gpus = facts.visibleGpus();
  for (size_t a = 0; a < gpus.size(); ++a)
    for (size_t b = a + 1; b < gpus.size(); ++b)
      look(gpus[a], gpus[b]);
}

const NvmlPair &nvmlPair(const Facts &facts, const Gpu &from, const Gpu &to) {
  static const NvmlPair kUnknown;
  return facts.nvml.value ? facts.nvml.value->pairs[from.index][to.index] : kUnknown;
}

/// Returns why NVML reports that one device cannot access the other, or an empty string.
std::string refusalOf(const Facts &facts, const Gpu &a, const Gpu &b) {
  const std::string &there = nvmlPair(facts, a, b).refusal;
  return there.empty() ? nvmlPair(facts, b, a).refusal : there;
}

/// Returns CUDA's answer, or else NVML's.
bool canReach(const Facts &facts, const Gpu &a, const Gpu &b) {
  if (!a.cuda || !b.cuda)
    return refusalOf(facts, a, b).empty();
  return facts.cudaNumber(fmt::format("{}.access.{}", *a.cuda, *b.cuda)) != 0 &&
         facts.cudaNumber(fmt::format("{}.access.{}", *b.cuda, *a.cuda)) != 0;
}

void checkAccess(const Facts &facts, Lines &lines) {
  int64_t reachable = 0;
  forEachPair(facts, [&](const Gpu &a, const Gpu &b) {
    if (canReach(facts, a, b)) {
      ++reachable;
      return;
    }
    const bool isDivided = a.nvml.mig.value_or(false) || b.nvml.mig.value_or(false);
    const std::string why = refusalOf(facts, a, b);
    lines.problem(
        "none", "{0} and {1} do not reach each other's memory: {2}",
        "use --backend nccl, or leave one of them out by CUDA_VISIBLE_DEVICES", a.name, b.name,
        !why.empty() ? why
                     : (isDivided ? "MIG divides one of them" : "the driver does not say why"));
  });
  if (lines.isEmpty() && reachable > 0)
    lines.ok("all", "the GPUs of {0} pairs reach each other's memory", reachable);
}

/// Ignores type "identity", which is harmless.
void checkIommu(const Facts &facts, Lines &lines) {
  std::vector<std::string> translated;
  for (const Gpu &gpu : facts.visibleGpus())
    if (gpu.iommu.starts_with("DMA"))
      translated.push_back(gpu.pci);
  if (facts.visibleGpus().size() > 1 && !translated.empty())
    lines.note("translates", "an IOMMU translates what GPUs send: {0}",
               "on machines that are not virtual, start Linux with iommu=pt: data between GPUs "
               "may be slow or wrong",
               llvm::join(translated, ", "));
}

} // namespace

std::vector<Check> gpuChecks() {
  return {{"gpu", false, findGpus},           {"driver", true, checkDriver},
          {"nvml", true, checkNvml},          {"cuda", true, checkCuda},
          {"cublaslt", true, checkCublasLt},  {"nccl", true, checkNccl},
          {"compute-mode", true, checkMode},  {"mig", true, checkMig},
          {"sharing", true, checkSharing},    {"power", true, checkPower},
          {"clocks", true, checkClocks},      {"ecc", true, checkEcc},
          {"nvlink", true, checkNvLink},      {"pcie", true, checkPcie},
          {"peer-access", true, checkAccess}, {"iommu", true, checkIommu}};
}

} // namespace braid::doctor
