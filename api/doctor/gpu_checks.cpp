//===- api/doctor/gpu_checks.cpp - drivers, libraries, each GPU, and pairs of GPUs ------------===//

#include "api/doctor/check.h"

#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

// -- Driver and libraries. --

std::string addressesOf(const Facts &facts) {
  auto addresses = llvm::map_range(facts.gpus, [](const Gpu &gpu) { return gpu.nvml.pci; });
  return llvm::join(addresses, ", ");
}

/// Formats a CUDA version, such as "13.0" for 13000.
std::string versionText(int64_t version) {
  return version == 0 ? "(unknown version)"
                      : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void findGpus(const Facts &facts, Lines &lines) {
  if (!facts.hasGpu())
    return lines.ok("none", "no NVIDIA GPU; only the cpu and null backends are available");
  std::vector<std::string> names, hidden;
  for (const Gpu &gpu : facts.gpus)
    if (gpu.isHidden)
      hidden.push_back(gpu.nvml.pci);
    else
      names.push_back(gpu.nvml.name.empty() ? gpu.name : gpu.name + ": " + gpu.nvml.name);
  if (!names.empty())
    lines.ok("found", "{0}", llvm::join(names, ", "));
  if (!hidden.empty())
    lines.ok("hidden", "hidden by CUDA_VISIBLE_DEVICES and therefore not checked: {0}",
             llvm::join(hidden, ", "));
}

void checkDriver(const Facts &facts, Lines &lines) {
  const bool hasNvml = facts.nvml.isOk();
  const int64_t ofNvml = hasNvml ? facts.nvml->cudaVersion : 0;
  const int64_t asked = facts.cudaNumber("driver").value_or(0);
  const int64_t cuda = asked != 0 ? asked : ofNvml;
  const int64_t needed = facts.cudaNumber("runtime").value_or(0) / 1000 * 1000;
  if (facts.kernelDriver.empty() && !hasNvml && cuda == 0)
    return lines.problem(
        "missing", "found a GPU ({0}), but no NVIDIA driver",
        "install the NVIDIA driver, or give the container access to the GPUs (docker "
        "run --gpus all)",
        addressesOf(facts));
  if (llvm::StringRef(facts.nvml.status().message()).contains("does not match the loaded driver"))
    return lines.problem(
        "mismatch", "the driver's libraries do not match the loaded driver ({0})",
        "restart the machine after a driver update; in a container, restart the container",
        facts.kernelDriver);
  if (facts.deviceFiles == 0 && !hasNvml)
    return lines.problem("no-devices",
                         "the driver is loaded ({0}), but /dev/nvidia0 does not exist",
                         "give the container access to the GPUs (docker run --gpus all), or run "
                         "nvidia-smi as root once",
                         facts.kernelDriver);
  if (cuda != 0 && cuda < needed)
    return lines.problem("too-old", "the driver supports CUDA {0}, but braid needs CUDA {1}",
                         "update the driver, or put NVIDIA's cuda-compat first in LD_LIBRARY_PATH",
                         versionText(cuda), versionText(needed));
  const std::string version = hasNvml ? facts.nvml->driver : "";
  lines.ok("found", "{0}, which supports CUDA {1}", version.empty() ? facts.kernelDriver : version,
           versionText(cuda));
}

void checkNvml(const Facts &facts, Lines &lines) {
  if (facts.nvml)
    lines.ok("found", "{0}", facts.nvml->library);
  else if (isLate(facts.nvml))
    lines.problem("hung", "{0}", "check dmesg for Xid errors; reset the GPU or restart the machine",
                  facts.nvml.status().message());
  else
    lines.note("missing", "{0}",
               "power, clocks, links and errors cannot be checked; set BRAID_NVML_LIBRARY to "
               "libnvidia-ml.so.1, or unset it",
               facts.nvml.status().message());
}

void checkVisible(const Facts &facts, Lines &lines) {
  const auto found = facts.variables.find("CUDA_VISIBLE_DEVICES");
  if (found == facts.variables.end() || !facts.cuda)
    return;
  const std::string value = printable(found->second, 60);
  const auto existing = static_cast<int64_t>(facts.gpus.size());
  if (llvm::StringRef(value).trim().empty())
    lines.problem("hidden", "CUDA_VISIBLE_DEVICES is '{0}', which hides every GPU",
                  "unset CUDA_VISIBLE_DEVICES, or set it to a list of GPUs", value);
  else if (facts.cudaDevices() == 0)
    lines.problem("unknown", "CUDA_VISIBLE_DEVICES is '{0}', but CUDA finds no such GPU",
                  "set it to GPUs listed by nvidia-smi -L", value);
  else if (facts.cudaDevices() < existing)
    lines.note("fewer", "CUDA_VISIBLE_DEVICES is '{0}': programs see {1} of {2} GPUs",
               "unset it to use all GPUs; CUDA ignores an invalid entry and all entries after it",
               value, facts.cudaDevices(), existing);
}

void checkCuda(const Facts &facts, Lines &lines) {
  if (!facts.hasCuda)
    return lines.note(
        "not-built", "this build of braid has no cuda backend",
        "build braid with the CUDA compiler, or install a package that includes this backend");
  if (isLate(facts.cuda))
    return lines.problem("hung", "{0}",
                         "check dmesg for Xid errors; reset the GPU or restart the machine",
                         facts.cuda.status().message());
  checkVisible(facts, lines);
  if (facts.cudaDevices() > 0)
    lines.ok("found", "CUDA {0}, visible GPUs: {1}",
             versionText(facts.cudaNumber("runtime").value_or(0)), facts.cudaDevices());
  else if (lines.isEmpty())
    lines.problem("none", "CUDA sees no GPU: {0}",
                  "run nvidia-smi; if it lists a GPU, check this container's resource limits and "
                  "device access",
                  facts.cudaText("why none"));
}

void checkCublasLt(const Facts &facts, Lines &lines) {
  if (const std::string error = facts.cudaText("cublaslt error"); !error.empty())
    lines.problem("missing", "{0}",
                  "install cuBLAS for CUDA {1}, or add its folder to LD_LIBRARY_PATH", error,
                  facts.cudaNumber("runtime").value_or(0) / 1000);
  else if (const std::string version = facts.cudaText("cublaslt version"); !version.empty())
    lines.ok("found", "cuBLASLt {0} ({1})", version, facts.cudaText("cublaslt file"));
}

void checkNccl(const Facts &facts, Lines &lines) {
  if (!facts.nccl)
    return;
  BackendFacts nccl = *facts.nccl;
  if (!nccl["error"].empty() && !facts.variable("BRAID_NCCL_LIBRARY").empty())
    return lines.problem("wrong", "{0}", "unset BRAID_NCCL_LIBRARY, or set it to libnccl.so.2",
                         nccl["error"]);
  if (!nccl["error"].empty())
    return lines.note("missing", "{0}",
                      "only --backend nccl and --transport messages need NCCL; to use them, "
                      "install NCCL, or nvidia-nccl from PyPI",
                      nccl["error"]);
  lines.ok("found", "NCCL {0} ({1})", nccl["version"], nccl["file"]);
}

// -- Each GPU. --

/// A check that runs `look` for each visible GPU.
template <void (*look)(const Facts &facts, const Gpu &gpu, Lines &lines)>
void ofEachGpu(const Facts &facts, Lines &lines) {
  for (const Gpu &gpu : facts.visibleGpus())
    look(facts, gpu, lines);
}

void checkMode(const Facts &facts, const Gpu &gpu, Lines &lines) {
  const ComputeMode mode = gpu.nvml.computeMode.value_or(ComputeMode::Shared);
  if (mode == ComputeMode::Prohibited)
    lines.problem("prohibited", "no process can use {0}: its compute mode is 'prohibited'",
                  "run nvidia-smi -c DEFAULT as root", gpu.name);
  else if (mode != ComputeMode::Shared && facts.variable("BRAID_SHARE_GPUS") == "on")
    lines.problem("not-shared",
                  "{0} accepts only one process at a time, but BRAID_SHARE_GPUS=on lets several "
                  "processes use it",
                  "run nvidia-smi -c DEFAULT as root, or unset BRAID_SHARE_GPUS", gpu.name);
  else if (mode != ComputeMode::Shared)
    lines.note(
        "exclusive", "{0} accepts only one process at a time: its compute mode is exclusive",
        "to let several processes use it at the same time, run nvidia-smi -c DEFAULT as root",
        gpu.name);
}

void checkMig(const Facts &, const Gpu &gpu, Lines &lines) {
  if (gpu.nvml.mig.value_or(false))
    lines.note("on", "{0} is partitioned (MIG); its instances cannot access each other's memory",
               "to use several ranks, run nvidia-smi -mig 0 as root", gpu.name);
}

void checkSharing(const Facts &facts, Lines &lines) {
  for (int64_t device = 0; device < facts.cudaDevices(); ++device) {
    auto isDenied = [&](const char *what) {
      return facts.cudaNumber(fmt::format("{}.{}", device, what)) == 0;
    };
    if (isDenied("ipc"))
      lines.problem("no-ipc", "CUDA device {0} cannot share memory through CUDA IPC",
                    "--backend cuda requires CUDA IPC; use --backend nccl instead", device);
    if (isDenied("vmm") || isDenied("fd"))
      lines.note("no-descriptors", "CUDA device {0} cannot export memory as file descriptors",
                 "use --memory ipc", device);
  }
  if (facts.cudaDevices() > 0 && lines.isEmpty())
    lines.ok("fine", "{0} GPUs can share memory both through CUDA IPC and as file descriptors",
             facts.cudaDevices());
}

void checkPower(const Facts &, const Gpu &gpu, Lines &lines) {
  if (gpu.nvml.powerLimit && gpu.nvml.defaultPowerLimit &&
      *gpu.nvml.powerLimit < *gpu.nvml.defaultPowerLimit)
    lines.note("capped", "{0} is limited to {1:.0f} W; the default is {2:.0f} W",
               "GEMMs run slower; to restore the default, run nvidia-smi -pl {2:.0f} as root",
               gpu.name, *gpu.nvml.powerLimit, *gpu.nvml.defaultPowerLimit);
}

constexpr std::pair<ClockReason, const char *> kThrottles[] = {
    {ClockReason::PowerCap, "the power cap"},
    {ClockReason::Heat, "software thermal throttling"},
    {ClockReason::HardwareHeat, "hardware thermal throttling"},
    {ClockReason::PowerBrake, "a power brake"},
    {ClockReason::Hardware, "a hardware slowdown"},
    {ClockReason::SyncBoost, "sync boost with another GPU"},
};

void checkClocks(const Facts &, const Gpu &gpu, Lines &lines) {
  auto hasReason = [&](ClockReason reason) {
    return (gpu.nvml.clockReasons.value_or(0) & static_cast<uint64_t>(reason)) != 0;
  };
  const unsigned clock = gpu.nvml.smClock.value_or(0), most = gpu.nvml.mostSmClock.value_or(0);
  std::vector<std::string> reasons;
  for (const auto &[reason, text] : kThrottles)
    if (hasReason(reason))
      reasons.push_back(text);
  if (!reasons.empty())
    lines.note("throttled", "{0} runs at {2} of {3} MHz because of {1}",
               "check power and cooling; times measured in this state are unreliable", gpu.name,
               llvm::join(reasons, ", "), clock, most);
  if (hasReason(ClockReason::Setting))
    lines.note("set", "the clocks of {0} are set to {1} MHz; the maximum is {2} MHz",
               "to reset them, run nvidia-smi -rgc and nvidia-smi -rac as root", gpu.name, clock,
               most);
}

void checkEcc(const Facts &, const Gpu &gpu, Lines &lines) {
  if (gpu.nvml.ecc == false)
    lines.note("off", "ECC is disabled on {0}",
               "memory errors go undetected, so results may be wrong", gpu.name);
  if (gpu.nvml.uncorrected.value_or(0) > 0)
    lines.problem("errors", "{0} has had {1} uncorrectable memory errors since it started",
                  "stop the processes that use it and run nvidia-smi -r as root; if errors recur, "
                  "replace the GPU",
                  gpu.name, *gpu.nvml.uncorrected);
  else if (gpu.nvml.uncorrectedEver.value_or(0) > 0)
    lines.note("errors-before", "{0} has had {1} uncorrectable memory errors in its lifetime",
               "to check whether the number is growing, run nvidia-smi -q -d ECC,ROW_REMAPPER",
               gpu.name, *gpu.nvml.uncorrectedEver);
}

void checkNvLink(const Facts &, const Gpu &gpu, Lines &lines) {
  const auto down = llvm::count_if(gpu.nvml.links, [](const NvmlLink &link) { return !link.isUp; });
  const auto all = static_cast<int64_t>(gpu.nvml.links.size());
  if (down > 0 && down < all)
    lines.note("down", "{1} of {2} NVLinks of {0} are down",
               "for details, run nvidia-smi nvlink -s; on machines with NVSwitch, the Fabric "
               "Manager must be running",
               gpu.name, down, all);
  for (const NvmlLink &link : gpu.nvml.links)
    if (link.errors > 0)
      lines.note(
          "errors", "NVLink {1} of {0} has had {2} errors (replay, recovery or checksum)",
          "if the number keeps growing (see nvidia-smi nvlink -e), the link is slow or failing",
          gpu.name, link.number, link.errors);
}

/// Checks only the link width, because idle devices lower the PCIe generation of their links.
void checkPcie(const Facts &, const Gpu &gpu, Lines &lines) {
  if (gpu.nvml.pcieWidth && gpu.nvml.mostPcieWidth && *gpu.nvml.pcieWidth < *gpu.nvml.mostPcieWidth)
    lines.note("narrow", "{0} is connected at PCIe x{1}, but supports x{2}",
               "reseat the GPU, or use another slot", gpu.name, *gpu.nvml.pcieWidth,
               *gpu.nvml.mostPcieWidth);
}

// -- Pairs of GPUs. --

/// Returns NVML's reason why one of two GPUs cannot access the other, or "" if there is none.
std::string refusalOf(const Facts &facts, const Gpu &a, const Gpu &b) {
  if (!facts.nvml)
    return "";
  const std::string &there = facts.nvml->pairs[a.index][b.index].refusal;
  return there.empty() ? facts.nvml->pairs[b.index][a.index].refusal : there;
}

/// Returns true if both GPUs can access each other, according to CUDA or else to NVML.
bool canReach(const Facts &facts, const Gpu &a, const Gpu &b) {
  if (!a.cuda || !b.cuda)
    return refusalOf(facts, a, b).empty();
  return facts.cudaNumber(fmt::format("{}.access.{}", *a.cuda, *b.cuda)) != 0 &&
         facts.cudaNumber(fmt::format("{}.access.{}", *b.cuda, *a.cuda)) != 0;
}

void checkAccess(const Facts &facts, Lines &lines) {
  int64_t reachable = 0;
  auto checkPair = [&](const Gpu &a, const Gpu &b) {
    if (canReach(facts, a, b)) {
      ++reachable;
      return;
    }
    const bool isDivided = a.nvml.mig.value_or(false) || b.nvml.mig.value_or(false);
    const std::string why = refusalOf(facts, a, b);
    lines.problem("none", "{0} and {1} cannot access each other's memory: {2}",
                  "use --backend nccl, or exclude one of them with CUDA_VISIBLE_DEVICES", a.name,
                  b.name,
                  !why.empty() ? why
                               : (isDivided ? "one of them is partitioned (MIG)"
                                            : "the driver does not report a reason"));
  };
  const std::vector<Gpu> gpus = facts.visibleGpus();
  for (size_t a = 0; a < gpus.size(); ++a)
    for (size_t b = a + 1; b < gpus.size(); ++b)
      checkPair(gpus[a], gpus[b]);
  if (lines.isEmpty() && reachable > 0)
    lines.ok("all", "the GPUs of each pair can access each other's memory (pairs: {0})", reachable);
}

/// Ignores groups of type "identity", which are harmless.
void checkIommu(const Facts &facts, Lines &lines) {
  std::vector<std::string> translated;
  for (const Gpu &gpu : facts.visibleGpus())
    if (gpu.iommu.starts_with("DMA"))
      translated.push_back(gpu.nvml.pci);
  if (facts.visibleGpus().size() > 1 && !translated.empty())
    lines.note("translates", "an IOMMU translates the addresses of transfers between GPUs: {0}",
               "transfers between GPUs may be slow or may corrupt data; outside virtual machines, "
               "boot Linux with iommu=pt",
               llvm::join(translated, ", "));
}

} // namespace

std::vector<Check> gpuChecks() {
  return {{"gpu", false, findGpus},
          {"driver", true, checkDriver},
          {"nvml", true, checkNvml},
          {"cuda", true, checkCuda},
          {"cublaslt", true, checkCublasLt},
          {"nccl", true, checkNccl},
          {"compute-mode", true, ofEachGpu<checkMode>},
          {"mig", true, ofEachGpu<checkMig>},
          {"sharing", true, checkSharing},
          {"power", true, ofEachGpu<checkPower>},
          {"clocks", true, ofEachGpu<checkClocks>},
          {"ecc", true, ofEachGpu<checkEcc>},
          {"nvlink", true, ofEachGpu<checkNvLink>},
          {"pcie", true, ofEachGpu<checkPcie>},
          {"peer-access", true, checkAccess},
          {"iommu", true, checkIommu}};
}

} // namespace braid::doctor
