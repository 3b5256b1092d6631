//===- api/doctor/device_checks.cpp - how each GPU is set, and how it is ----------------------===//

#include "api/doctor/check.h"

#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

/// Calls `look` for every device of NVML's that programs see, with its name in texts.
void forEachGpu(const Facts &facts,
                llvm::function_ref<void(const NvmlDevice &, std::string)> look) {
  for (size_t index : shownGpus(facts))
    look(facts.nvml.value->devices[index], gpuName(facts, index));
}

bool sharesGpus(const Facts &facts) { return facts.variable("BRAID_SHARE_GPUS") == "on"; }

void lookAtMode(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    if (device.computeMode == ComputeMode::Prohibited)
      lines.add("prohibited", name);
    else if (device.computeMode == ComputeMode::ExclusiveProcess ||
             device.computeMode == ComputeMode::ExclusiveThread)
      lines.add(sharesGpus(facts) ? "not-shared" : "exclusive", name);
  });
}

void lookAtMig(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    if (device.mig.value_or(false))
      lines.add("on", name);
  });
}

/// By CUDA's numbers, for it is CUDA that says so.
void lookAtExports(const Facts &facts, Lines &lines) {
  const int64_t count = facts.cudaNumber("devices").value_or(0);
  auto says = [&](int64_t device, const char *what, int64_t value) {
    return facts.cudaNumber(fmt::format("{}.{}", device, what)) == value;
  };
  for (int64_t device = 0; device < count; ++device) {
    if (says(device, "ipc", 0))
      lines.add("no-ipc", device);
    if (says(device, "vmm", 0) || says(device, "fd", 0))
      lines.add("no-descriptors", device);
  }
  if (count > 0 && lines.count() == 0)
    lines.add("fine", count);
}

void lookAtPower(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    const std::optional<double> limit =
        device.enforcedPowerLimit ? device.enforcedPowerLimit : device.powerLimit;
    if (limit && device.defaultPowerLimit && *limit < *device.defaultPowerLimit)
      lines.add("capped", name, fmt::format("{:.0f}", *limit),
                fmt::format("{:.0f}", *device.defaultPowerLimit));
  });
}

struct Throttle {
  ClockReason reason;
  const char *text;
};
constexpr Throttle kThrottles[] = {
    {ClockReason::PowerCap, "the power cap"},
    {ClockReason::Heat, "heat (software)"},
    {ClockReason::HardwareHeat, "heat (hardware)"},
    {ClockReason::PowerBrake, "the power supply's brake"},
    {ClockReason::Hardware, "a slowdown by hardware"},
    {ClockReason::SyncBoost, "another GPU, by sync boost"},
};

bool hasReason(const NvmlDevice &device, ClockReason reason) {
  return (device.clockReasons.value_or(0) & static_cast<uint64_t>(reason)) != 0;
}

void lookAtClocks(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    std::vector<std::string> reasons;
    for (const Throttle &throttle : kThrottles)
      if (hasReason(device, throttle.reason))
        reasons.push_back(throttle.text);
    if (!reasons.empty())
      lines.add("throttled", name, llvm::join(reasons, ", "), device.smClock.value_or(0),
                device.mostSmClock.value_or(0));
    if (hasReason(device, ClockReason::Setting))
      lines.add("set", name, device.smClock.value_or(0), device.mostSmClock.value_or(0));
  });
}

void lookAtErrors(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    if (device.ecc == false)
      lines.add("off", name);
    if (device.uncorrected.value_or(0) > 0)
      lines.add("errors", name, *device.uncorrected);
    else if (device.uncorrectedEver.value_or(0) > 0)
      lines.add("errors-before", name, *device.uncorrectedEver);
  });
}

void lookAtLinks(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    const auto up = llvm::count_if(device.links, [](const NvmlLink &link) { return link.isUp; });
    const auto all = static_cast<int64_t>(device.links.size());
    if (up > 0 && up < all)
      lines.add("down", name, all - up, all);
    for (const NvmlLink &link : device.links)
      if (link.replays.value_or(0) + link.recoveries.value_or(0) + link.crcErrors.value_or(0) > 0)
        lines.add("errors", name, link.number, link.replays.value_or(0),
                  link.recoveries.value_or(0), link.crcErrors.value_or(0));
  });
}

/// An idle device lowers the generation of its link, never the width.
void lookAtPcie(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    if (device.pcieWidth && device.mostPcieWidth && *device.pcieWidth < *device.mostPcieWidth)
      lines.add("narrow", name, *device.pcieWidth, *device.mostPcieWidth);
  });
}

void lookAtPersistence(const Facts &facts, Lines &lines) {
  forEachGpu(facts, [&](const NvmlDevice &device, const std::string &name) {
    if (device.isPersistent == false)
      lines.add("off", name);
  });
}

bool isBusy(const Failure &failure) {
  return failure.mentions({"busy or unavailable", "cudaErrorDevicesUnavailable", "no GPU"});
}

bool isAboutIpc(const Failure &failure) { return failure.mentions({"cudaIpc", "CUDA IPC"}); }

bool isAboutEcc(const Failure &failure) {
  return failure.mentions({"uncorrectable", "ECC", "cudaErrorECCUncorrectable"}) ||
         failure.code == StatusCode::PeerFailed;
}

} // namespace

std::vector<Check> deviceChecks() {
  using enum Severity;
  return {
      {.name = "compute-mode",
       .needsGpu = true,
       .lines = {{"prohibited", Problem, "{0} admits no programs: its compute mode is prohibited",
                  "nvidia-smi -c DEFAULT, as root"},
                 {"not-shared", Problem,
                  "{0} admits one process, but BRAID_SHARE_GPUS=on lets several use it",
                  "nvidia-smi -c DEFAULT, as root, or unset BRAID_SHARE_GPUS"},
                 {"exclusive", Note, "{0} admits one process: its compute mode is exclusive",
                  "nothing else may use it meanwhile; nvidia-smi -c DEFAULT, as root, lifts that"}},
       .look = lookAtMode,
       .explains = isBusy},
      {.name = "mig",
       .needsGpu = true,
       .lines = {{"on", Note, "{0} is divided (MIG); its parts cannot reach each other's memory",
                  "for several ranks: nvidia-smi -mig 0, as root"}},
       .look = lookAtMig},
      {.name = "sharing",
       .needsGpu = true,
       .lines = {{"no-ipc", Problem, "CUDA's device {0} exports no memory by CUDA IPC",
                  "--backend cuda needs that; use --backend nccl"},
                 {"no-descriptors", Note, "CUDA's device {0} exports no memory as file descriptors",
                  "use memory of CUDA IPC"},
                 {"fine", Ok, "{0} GPUs export memory by CUDA IPC and as file descriptors", ""}},
       .look = lookAtExports,
       .explains = isAboutIpc},
      {.name = "power",
       .needsGpu = true,
       .lines = {{"capped", Note, "{0} may draw {1} W of {2} W by default",
                  "GEMMs get slower: nvidia-smi -pl {2}, as root, lifts that"}},
       .look = lookAtPower},
      {.name = "clocks",
       .needsGpu = true,
       .lines = {{"throttled", Note, "{0} runs slower because of {1}: {2} MHz of {3} MHz",
                  "look at power and cooling; times that are measured now say little"},
                 {"set", Note, "somebody has set the clocks of {0}: {1} MHz of {2} MHz",
                  "nvidia-smi -rgc and -rac, as root, undo that"}},
       .look = lookAtClocks},
      {.name = "ecc",
       .needsGpu = true,
       .lines = {{"off", Note, "{0} runs without ECC", "results may be wrong and nobody sees it"},
                 {"errors", Problem, "{0} had {1} uncorrectable memory errors since it started",
                  "stop what uses it and nvidia-smi -r, as root; if they come again, replace it"},
                 {"errors-before", Note, "{0} has had {1} uncorrectable memory errors in its life",
                  "watch whether there are more: nvidia-smi -q -d ECC,ROW_REMAPPER"}},
       .look = lookAtErrors,
       .explains = isAboutEcc},
      {.name = "nvlink",
       .needsGpu = true,
       .lines = {{"down", Note, "{1} of {2} NvLinks of {0} are down",
                  "nvidia-smi nvlink -s; the fabric manager has to run where there are switches"},
                 {"errors", Note,
                  "NvLink {1} of {0} had errors: {2} replays, {3} recoveries, {4} of its checksum",
                  "if they go on, it is slow or fails: nvidia-smi nvlink -e"}},
       .look = lookAtLinks},
      {.name = "pcie",
       .needsGpu = true,
       .lines = {{"narrow", Note, "{0} is connected by PCIe x{1}, though it has x{2}",
                  "seat it anew, or use another slot"}},
       .look = lookAtPcie},
      {.name = "persistence",
       .needsGpu = true,
       .lines = {{"off", Note, "{0} is shut down whenever nobody uses it",
                  "programs start slowly: nvidia-smi -pm 1, as root"}},
       .look = lookAtPersistence},
  };
}

} // namespace braid::doctor
