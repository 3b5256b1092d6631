//===- api/doctor/driver_checks.cpp - driver, CUDA and the libraries that are opened ----------===//

#include "api/doctor/check.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace braid::doctor {
namespace {

std::string addressesOf(const Facts &facts) {
  std::vector<std::string> addresses;
  for (const PciGpu &gpu : facts.gpus)
    addresses.push_back(gpu.address);
  return llvm::join(addresses, ", ");
}

/// "2 GPUs: NVIDIA H100 80GB HBM3, NVIDIA H100 80GB HBM3"; without NVML, their addresses.
void lookForGpus(const Facts &facts, Lines &lines) {
  if (!facts.hasGpu())
    return lines.add("none");
  if (!facts.nvml.value)
    return lines.add("found", facts.gpus.empty() ? "of unknown number" : addressesOf(facts));
  const std::vector<NvmlDevice> &devices = facts.nvml.value->devices;
  const std::vector<size_t> shown = shownGpus(facts);
  std::vector<std::string> names, hidden;
  for (size_t index : shown)
    names.push_back(fmt::format("{}: {}", gpuName(facts, index), devices[index].name));
  for (size_t index = 0; index < devices.size(); ++index)
    if (!llvm::is_contained(shown, index))
      hidden.push_back(devices[index].pci);
  if (!names.empty())
    lines.add("found", llvm::join(names, ", "));
  if (!hidden.empty())
    lines.add("hidden", llvm::join(hidden, ", "));
}

bool isOfAnotherDriver(const Facts &facts) {
  return llvm::StringRef(facts.nvml.error).contains("not of the version of the driver");
}

void lookAtDriver(const Facts &facts, Lines &lines) {
  const std::string version = facts.nvml.value ? facts.nvml.value->driver : "";
  const int64_t known = facts.cudaNumber("driver").value_or(0); // 0: it could not be asked
  const int64_t cuda = known == 0 && facts.nvml.value ? facts.nvml.value->cudaVersion : known;
  const int64_t needed = facts.cudaNumber("runtime").value_or(0) / 1000 * 1000;
  if (facts.kernelDriver.empty() && !facts.nvml.value && cuda == 0)
    return lines.add("missing", addressesOf(facts));
  if (isOfAnotherDriver(facts))
    return lines.add("mismatch", facts.kernelDriver);
  if (facts.deviceFiles == 0 && !facts.nvml.value)
    return lines.add("no-devices", facts.kernelDriver);
  if (cuda != 0 && cuda < needed)
    return lines.add("too-old", cudaVersionText(cuda), cudaVersionText(needed));
  lines.add("found", version.empty() ? facts.kernelDriver : version,
            cuda == 0 ? "an unknown version" : cudaVersionText(cuda));
}

void lookAtNvml(const Facts &facts, Lines &lines) {
  if (facts.nvml.value)
    lines.add("found", facts.nvml.value->library);
  else if (facts.nvml.isLate)
    lines.add("hung", facts.patience.count());
  else if (!facts.nvml.error.empty())
    lines.add("missing", facts.nvml.error);
}

// -- What CUDA sees. --

bool isDeviceNamed(const Facts &facts, const std::string &entry) {
  const std::vector<NvmlDevice> &devices = facts.nvml.value->devices;
  size_t number = 0;
  if (!llvm::StringRef(entry).getAsInteger(10, number))
    return number < devices.size();
  // A prefix is enough where it is one device's; NVML does not list MIG's parts here.
  return entry.starts_with("MIG-") || llvm::any_of(devices, [&](const NvmlDevice &device) {
           return device.uuid.starts_with(entry);
         });
}

/// What CUDA sees of the list: the entries before the first that is no device.
struct Seen {
  size_t count = 0;
  std::string wrong; ///< that one; empty: there is none
};

Seen seenOf(const Facts &facts, const VisibleDevices &visible) {
  Seen seen{visible.named.size(), visible.wrong};
  if (facts.nvml.value)
    for (size_t i = 0; i < visible.named.size(); ++i)
      if (!isDeviceNamed(facts, visible.named[i]))
        return {i, visible.named[i]};
  return seen;
}

std::string devicesText(const Facts &facts) {
  if (!facts.nvml.value || facts.nvml.value->devices.empty())
    return "those that nvidia-smi -L lists";
  std::vector<std::string> texts;
  for (size_t i = 0; i < facts.nvml.value->devices.size(); ++i)
    texts.push_back(fmt::format("{} = {}", i, facts.nvml.value->devices[i].uuid));
  return llvm::join(texts, ", ");
}

/// True if CUDA_VISIBLE_DEVICES hides all.
bool lookAtVisible(const Facts &facts, Lines &lines) {
  const std::optional<std::string> value = facts.variable("CUDA_VISIBLE_DEVICES");
  if (!value)
    return false;
  const Seen seen = seenOf(facts, parseVisibleDevices(*value));
  if (llvm::StringRef(*value).trim().empty())
    lines.add("hidden", *value);
  else if (seen.count == 0)
    lines.add("unknown", *value, seen.wrong, devicesText(facts));
  else if (!seen.wrong.empty())
    lines.add("cut", *value, seen.wrong, seen.count);
  else if (facts.nvml.value && seen.count < facts.nvml.value->devices.size())
    lines.add("fewer", *value, seen.count, facts.nvml.value->devices.size());
  return seen.count == 0;
}

void lookAtCuda(const Facts &facts, Lines &lines) {
  if (!facts.hasCuda)
    return lines.add("not-built");
  const bool isExplained = lookAtVisible(facts, lines) || isShortOfAddresses(facts);
  if (facts.cuda.isLate)
    return lines.add("hung", facts.patience.count());
  const std::optional<int64_t> devices = facts.cudaNumber("devices");
  if (devices == 0 && !isExplained)
    lines.add("none", facts.cudaText("why none").value_or(""));
  if (devices.value_or(0) > 0)
    lines.add("found", cudaVersionText(facts.cudaNumber("runtime").value_or(0)), *devices);
}

void lookAtCublasLt(const Facts &facts, Lines &lines) {
  const std::string major = fmt::format("{}", facts.cudaNumber("runtime").value_or(0) / 1000);
  if (auto error = facts.cudaText("cublaslt error"))
    lines.add("missing", *error, major);
  else if (auto version = facts.cudaText("cublaslt version"))
    lines.add("found", *version, facts.cudaText("cublaslt file").value_or("?"));
}

// -- NCCL. --

/// What a version lacks that later ones have.
struct NcclFeature {
  int64_t since;
  const char *name;
};
constexpr NcclFeature kNcclFeatures[] = {
    {22700, "windows of symmetric memory (2.27)"},
    {22803, "collectives without multiprocessors (2.28.3)"},
    {22900, "peers' pointers into windows (2.29)"},
};
constexpr int64_t kZeroSm = 22803, kZeroSmWorks = 23102;

void lookAtNccl(const Facts &facts, Lines &lines) {
  if (!facts.nccl.value)
    return;
  auto text = [&](const char *name) {
    const auto found = facts.nccl.value->find(name);
    return found == facts.nccl.value->end() ? std::string() : found->second;
  };
  if (!text("error").empty()) {
    const bool isAsked = facts.variable("BRAID_NCCL_LIBRARY").value_or("") != "";
    return lines.add(isAsked ? "wrong" : "missing", text("error"));
  }
  int64_t number = 0;
  if (llvm::StringRef(text("number")).getAsInteger(10, number))
    return;
  lines.add("found", text("version"), text("file"));
  std::vector<std::string> lacking;
  for (const NcclFeature &feature : kNcclFeatures)
    if (number < feature.since)
      lacking.push_back(feature.name);
  if (!lacking.empty())
    lines.add("lacks", text("version"), llvm::join(lacking, ", "));
  if (number >= kZeroSm && number < kZeroSmWorks)
    lines.add("zero-sm", text("version"));
}

bool isAboutGpus(const Failure &failure) {
  return failure.code == StatusCode::Unsupported &&
         failure.mentions({"no GPU", "NVIDIA driver", "needs a GPU", "CUDA driver", "cudaError"});
}

} // namespace

std::vector<Check> driverChecks() {
  using enum Severity;
  return {
      {.name = "gpu",
       .lines = {{"none", Ok, "no GPU of NVIDIA's here; ranks run on cpu and null", ""},
                 {"found", Ok, "{0}", ""},
                 {"hidden", Ok, "hidden by CUDA_VISIBLE_DEVICES, and not looked at: {0}", ""}},
       .look = lookForGpus},
      {.name = "driver",
       .needsGpu = true,
       .lines = {{"missing", Problem, "a GPU ({0}), but no NVIDIA driver",
                  "install NVIDIA's driver, or start the container with the GPUs (docker run "
                  "--gpus all)"},
                 {"mismatch", Problem,
                  "the driver's libraries are not of the version that is loaded ({0})",
                  "restart the machine after updating the driver; in a container, restart that"},
                 {"no-devices", Problem, "the driver is loaded ({0}), but there is no /dev/nvidia0",
                  "start the container with the GPUs (docker run --gpus all), or run nvidia-smi as "
                  "root once"},
                 {"too-old", Problem,
                  "the driver supports CUDA {0}, but this program needs CUDA {1}",
                  "update the driver, or put NVIDIA's cuda-compat before it in LD_LIBRARY_PATH"},
                 {"found", Ok, "{0}, which supports CUDA {1}", ""}},
       .look = lookAtDriver,
       .explains = isAboutGpus},
      {.name = "nvml",
       .needsGpu = true,
       .lines = {{"found", Ok, "{0}", ""},
                 {"missing", Note, "{0}",
                  "power, clocks, links and errors are not known; let BRAID_NVML_LIBRARY name "
                  "libnvidia-ml.so.1, or unset it"},
                 {"hung", Problem,
                  "the driver does not answer NVML within {0} ms: nvidia-smi would hang, too",
                  "look for Xid in dmesg; reset the GPU or restart the machine"}},
       .look = lookAtNvml,
       .explains = [](const Failure &failure) { return failure.code == StatusCode::TimedOut; }},
      {.name = "cuda",
       .needsGpu = true,
       .lines = {{"not-built", Note, "this build of braid has no cuda backend",
                  "build it with CUDA's compiler, or install the package that has it"},
                 {"hidden", Problem, "CUDA_VISIBLE_DEVICES is '{0}', which hides every GPU",
                  "unset CUDA_VISIBLE_DEVICES, or name GPUs"},
                 {"unknown", Problem, "CUDA_VISIBLE_DEVICES is '{0}', but '{1}' is no GPU here",
                  "name GPUs of {2}"},
                 {"cut", Note,
                  "CUDA_VISIBLE_DEVICES is '{0}': '{1}' is no GPU here, and programs see the {2} "
                  "before it",
                  "leave it out, unless that is meant"},
                 {"fewer", Note, "CUDA_VISIBLE_DEVICES is '{0}': programs see {1} of {2} GPUs",
                  "unset it if all are meant"},
                 {"none", Problem, "CUDA sees no GPU: {0}",
                  "run nvidia-smi; if it sees one, look at limits and devices of this container"},
                 {"hung", Problem, "the driver does not answer CUDA within {0} ms",
                  "look for Xid in dmesg; reset the GPU or restart the machine"},
                 {"found", Ok, "CUDA {0} sees {1} of them", ""}},
       .look = lookAtCuda,
       .explains =
           [](const Failure &failure) {
             return isAboutGpus(failure) || failure.code == StatusCode::TimedOut;
           }},
      {.name = "cublaslt",
       .needsGpu = true,
       .lines = {{"found", Ok, "cuBLASLt {0} ({1})", ""},
                 {"missing", Problem, "{0}",
                  "install cuBLAS of CUDA {1}, or put its folder into LD_LIBRARY_PATH"}},
       .look = lookAtCublasLt,
       .explains = [](const Failure &failure) { return failure.mentions({"cuBLASLt"}); }},
      {.name = "nccl",
       .needsGpu = true,
       .lines = {{"found", Ok, "NCCL {0} ({1})", ""},
                 {"missing", Note, "{0}",
                  "only --backend nccl and --transport messages need it: install NCCL, or "
                  "nvidia-nccl of PyPI"},
                 {"wrong", Problem, "{0}", "unset BRAID_NCCL_LIBRARY, or name libnccl.so.2"},
                 {"lacks", Note, "NCCL {0} lacks {1}", "update NCCL if you need these"},
                 {"zero-sm", Note,
                  "collectives without multiprocessors of NCCL {0} made two ranks hang",
                  "update NCCL to 2.31.2 before you use those"}},
       .look = lookAtNccl,
       .explains = [](const Failure &failure) { return failure.mentions({"NCCL"}); }},
  };
}

} // namespace braid::doctor
