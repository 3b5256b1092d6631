//===- api/doctor/facts.cpp - the facts that `braid doctor` checks ----------------------------===//

#include "api/doctor/facts.h"

#include "runtime/files.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/tune/measurement_cache.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Threading.h"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

extern char **environ; // unistd.h declares it only with _GNU_SOURCE

namespace braid::doctor {
namespace {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// Returns the trimmed contents of a file in /proc or /sys, or "" if the file cannot be read.
std::string textAt(const std::string &file) {
  constexpr size_t kMostBytes = 1 << 16;
  Result<std::string> text = readFile(file, kMostBytes);
  return text ? llvm::StringRef(*text).trim().str() : "";
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end && !error;
       entry.increment(error))
    names.push_back(path::filename(entry->path()).str());
  llvm::sort(names);
  return names;
}

// -- This process. --

std::optional<uint64_t> limitOf(int resource, rlim_t rlimit::*which) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.*which == RLIM_INFINITY)
    return std::nullopt;
  return limit.*which;
}

/// Returns true unless the namespace is the initial one, whose link target is always `first`.
std::optional<bool> isOwnNamespace(const std::string &file, llvm::StringRef first) {
  char target[64] = {};
  const ssize_t size = readlink(file.c_str(), target, sizeof(target) - 1);
  return size > 0 ? std::optional(first != target) : std::nullopt;
}

// -- GPUs. --

Result<BackendFacts> askBackend(const Sources &sources, const std::string &name) {
  const auto found = sources.backends.find(name);
  if (found == sources.backends.end())
    return unsupported("");
  return askWithin<BackendFacts>(sources.patience, name == "cuda" ? "CUDA" : "NCCL", found->second);
}

bool isNvidiaGpu(const std::string &folder) {
  const std::string kind = textAt(folder + "/class");
  return textAt(folder + "/vendor") == "0x10de" &&
         (kind.starts_with("0x0300") || kind.starts_with("0x0302"));
}

std::optional<int64_t> cudaNumberAt(const Facts &facts, const std::string &pci) {
  for (int64_t device = 0; device < facts.cudaDevices(); ++device)
    if (normalizedPci(facts.cudaText(fmt::format("{}.pci", device))) == pci)
      return device;
  return std::nullopt;
}

/// Returns the GPUs that NVML lists, or, without NVML, the GPUs on the PCI bus.
std::vector<NvmlDevice> listGpus(const std::string &devices, const Facts &facts) {
  if (facts.nvml)
    return facts.nvml->devices;
  std::vector<NvmlDevice> gpus;
  for (const std::string &address : namesIn(devices))
    if (isNvidiaGpu(devices + address))
      gpus.emplace_back().pci = normalizedPci(address);
  return gpus;
}

void readGpus(const Sources &sources, Facts &facts) {
  const std::string devices = sources.root + "/sys/bus/pci/devices/";
  for (const NvmlDevice &device : listGpus(devices, facts)) {
    Gpu &gpu = facts.gpus.emplace_back();
    gpu.index = facts.gpus.size() - 1;
    gpu.nvml = device;
    gpu.cuda = cudaNumberAt(facts, device.pci);
    gpu.isHidden =
        !gpu.cuda && facts.cudaDevices() > 0 && facts.variables.count("CUDA_VISIBLE_DEVICES") != 0;
    gpu.name = fmt::format("{}GPU {} ({})", gpu.cuda || facts.cudaDevices() == 0 ? "" : "NVML ",
                           gpu.cuda.value_or(static_cast<int64_t>(gpu.index)), device.pci);
    gpu.iommu = textAt(devices + device.pci + "/iommu_group/type");
  }
  llvm::stable_sort(facts.gpus, [](const Gpu &a, const Gpu &b) {
    return a.cuda.value_or(INT64_MAX) < b.cuda.value_or(INT64_MAX);
  });
}

bool isDeviceFile(llvm::StringRef name) {
  return name.consume_front("nvidia") && !name.empty() && llvm::all_of(name, llvm::isDigit);
}

void readDrivers(const Sources &sources, Facts &facts) {
  const std::string driver = textAt(sources.root + "/proc/driver/nvidia/version");
  facts.kernelDriver = driver.substr(0, driver.find('\n'));
  facts.deviceFiles = llvm::count_if(namesIn(sources.root + "/dev"), isDeviceFile);
  facts.nvml = askWithin<NvmlReport>(sources.patience, "NVML", sources.nvml);
  facts.hasCuda = sources.backends.count("cuda") != 0;
  facts.cuda = askBackend(sources, "cuda");
  facts.nccl = askBackend(sources, "nccl");
}

std::string valueAt(const std::map<std::string, std::string> &values, const std::string &name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

} // namespace

std::string Process::variable(const std::string &name) const { return valueAt(variables, name); }

Environment Process::environment() const {
  return [process = *this](const std::string &name) {
    const std::string value = process.variable(name);
    return value.empty() ? std::nullopt : std::optional(value);
  };
}

bool Facts::hasGpu() const {
  return !gpus.empty() || deviceFiles > 0 || !kernelDriver.empty() || isStuck() ||
         cudaDevices() > 0;
}

std::vector<Gpu> Facts::visibleGpus() const {
  std::vector<Gpu> visible;
  llvm::copy_if(gpus, std::back_inserter(visible), [](const Gpu &gpu) { return !gpu.isHidden; });
  return visible;
}

std::string Facts::cudaText(const std::string &name) const {
  return cuda ? valueAt(*cuda, name) : "";
}

std::optional<int64_t> Facts::cudaNumber(const std::string &name) const {
  int64_t number = 0;
  return llvm::StringRef(cudaText(name)).getAsInteger(10, number) ? std::nullopt
                                                                  : std::optional(number);
}

Sources processSources(const BackendRegistry &registry) {
  Sources sources;
  for (char **entry = environ; entry && *entry; ++entry) {
    const auto [name, value] = llvm::StringRef(*entry).split('=');
    sources.variables[name.str()] = value.str();
  }
  sources.limits = {.openFiles = limitOf(RLIMIT_NOFILE, &rlimit::rlim_max),
                    .addressBytes = limitOf(RLIMIT_AS, &rlimit::rlim_cur)};
  sources.processors = llvm::hardware_concurrency().compute_thread_count();
  if (const auto space = llvm::sys::fs::disk_space("/dev/shm"))
    sources.sharedMemory = Space{space->capacity, space->available};
  sources.nvml = [environment = sources.environment()] { return readNvml(environment); };
  for (const Backend &backend : registry.all())
    if (backend.facts)
      sources.backends[backend.name] = [facts = backend.facts] { return Result(facts()); };
  return sources;
}

Facts readFacts(const Sources &sources) {
  Facts facts;
  static_cast<Process &>(facts) = sources;
  const std::string self = sources.root + "/proc/self";
  facts.hasOwnPids = isOwnNamespace(self + "/ns/pid", "pid:[4026531836]");
  facts.hasOwnIpc = isOwnNamespace(self + "/ns/ipc", "ipc:[4026531839]");
  facts.cache = measurementFolder(sources.environment());
  readDrivers(sources, facts);
  readGpus(sources, facts);
  return facts;
}

} // namespace braid::doctor
