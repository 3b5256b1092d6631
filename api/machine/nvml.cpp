//===- api/machine/nvml.cpp - facts about the GPUs of a machine, from NVML --------------------===//
//
// The build requires neither the driver nor its header, because functions are looked up at run
// time. The values and layouts below are part of NVML's documented ABI, which is stable.
//
//===----------------------------------------------------------------------------------------===//

#include "api/machine/nvml.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/loader.h"

#include "llvm/ADT/StringRef.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace braid {
namespace {

constexpr const char *kWhere = "set BRAID_NVML_LIBRARY to the path of the library";
constexpr unsigned kMostDevices = 256, kMostLinks = 36;

using Handle = void *; ///< nvmlDevice_t

/// The layout of nvmlPciInfo_t.
struct PciInfo {
  char oldAddress[16];
  unsigned domain, bus, device, deviceId, subsystemId;
  char address[32]; ///< "00000000:18:00.0"
};
static_assert(sizeof(PciInfo) == 68);

/// The layout of nvmlFieldValue_t. 32-bit values occupy the first 32 bits of `value`.
struct FieldValue {
  unsigned field = 0, scope = 0;
  int64_t timestamp = 0, latencyUs = 0;
  unsigned type = 0;
  int code = 0;
  uint64_t value = 0;
};
static_assert(sizeof(FieldValue) == 40);

/// The layout of nvmlMemory_t. Sizes are in bytes.
struct MemoryInfo {
  uint64_t total, free, used;
};

/// The NVML library. The destructor closes it.
class Library {
public:
  bool open(const std::string &file) {
    handle_.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
    return handle_ != nullptr;
  }
  void *find(const char *name) const { return dlsym(handle_.get(), name); }

  /// Calls the function `name`. Returns its nvmlReturn_t (0: success), or -1 if it does not exist.
  template <class... Args> int call(const char *name, Args... args) const {
    auto *function = reinterpret_cast<int (*)(Args...)>(find(name));
    return function ? function(args...) : -1;
  }
  /// Calls the function `name`. Returns the value that the function stores in its last parameter.
  template <class Value = unsigned, class... Args>
  std::optional<Value> ask(const char *name, Args... args) const {
    Value value{};
    return call(name, args..., &value) == 0 ? std::optional(value) : std::nullopt;
  }
  /// Returns the current mode. Ignores the pending mode, which applies after a reset.
  std::optional<bool> askMode(const char *name, Handle device) const {
    unsigned current = 0, pending = 0;
    return call(name, device, &current, &pending) == 0 ? std::optional(current != 0) : std::nullopt;
  }
  template <class... Args> std::string askText(const char *name, Args... args) const {
    std::array<char, 128> text = {};
    return call(name, args..., text.data(), unsigned(text.size() - 1)) == 0 ? text.data() : "";
  }
  template <class... Args> std::string askAddress(const char *name, Args... args) const {
    PciInfo info = {};
    if (call(name, args..., &info) != 0)
      return "";
    return normalizedPci(std::string(info.address, strnlen(info.address, sizeof(info.address))));
  }

private:
  std::unique_ptr<void, int (*)(void *)> handle_ = {nullptr, dlclose};
};

std::string explain(int code) {
  switch (code) {
  case 4:
    return "this user does not have permission to query the driver";
  case 9:
    return "the driver is not loaded";
  case 18:
    return "its version does not match the loaded driver";
  default:
    return fmt::format("error {}", code);
  }
}

std::optional<NvmlLink> readLink(const Library &nvml, Handle device, unsigned number) {
  const auto state = nvml.ask("nvmlDeviceGetNvLinkState", device, number);
  if (!state)
    return std::nullopt;
  NvmlLink link;
  link.number = number;
  link.isUp = *state != 0;
  if (!link.isUp)
    return link;
  constexpr unsigned kSwitch = 2;
  link.remote = nvml.askAddress("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, number);
  link.isToSwitch = nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", device, number) == kSwitch;
  for (int counter = 0; counter < 4; ++counter)
    link.errors +=
        nvml.ask<uint64_t>("nvmlDeviceGetNvLinkErrorCounter", device, number, counter).value_or(0);
  return link;
}

std::optional<unsigned> readLinkSpeed(const Library &nvml, Handle device) {
  FieldValue value{.field = 90}; // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
  const bool isKnown = nvml.call("nvmlDeviceGetFieldValues", device, 1, &value) == 0 &&
                       value.code == 0 && static_cast<uint32_t>(value.value) != 0;
  return isKnown ? std::optional(static_cast<uint32_t>(value.value)) : std::nullopt;
}

std::optional<double> readWatts(const Library &nvml, Handle device, const char *name) {
  const auto milliwatts = nvml.ask(name, device);
  return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
}

NvmlDevice readDevice(const Library &nvml, Handle device) {
  constexpr int kSmClock = 1, kUncorrected = 1, kSinceBoot = 0, kLifetime = 1;
  NvmlDevice read;
  read.name = nvml.askText("nvmlDeviceGetName", device);
  read.uuid = nvml.askText("nvmlDeviceGetUUID", device);
  read.pci = nvml.askAddress("nvmlDeviceGetPciInfo_v3", device);
  if (const auto memory = nvml.ask<MemoryInfo>("nvmlDeviceGetMemoryInfo", device))
    read.memoryBytes = memory->total;
  read.mig = nvml.askMode("nvmlDeviceGetMigMode", device);
  read.ecc = nvml.askMode("nvmlDeviceGetEccMode", device);
  if (const auto mode = nvml.ask("nvmlDeviceGetComputeMode", device); mode && *mode <= 3)
    read.computeMode = static_cast<ComputeMode>(*mode);
  read.powerLimit = readWatts(nvml, device, "nvmlDeviceGetEnforcedPowerLimit");
  read.defaultPowerLimit = readWatts(nvml, device, "nvmlDeviceGetPowerManagementDefaultLimit");
  read.smClock = nvml.ask("nvmlDeviceGetClockInfo", device, kSmClock);
  read.mostSmClock = nvml.ask("nvmlDeviceGetMaxClockInfo", device, kSmClock);
  read.clockReasons = nvml.ask<uint64_t>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  read.uncorrected =
      nvml.ask<uint64_t>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceBoot);
  read.uncorrectedEver =
      nvml.ask<uint64_t>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kLifetime);
  read.pcieWidth = nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", device);
  read.mostPcieWidth = nvml.ask("nvmlDeviceGetMaxPcieLinkWidth", device);
  read.mostPcieGeneration = nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", device);
  read.linkMBps = readLinkSpeed(nvml, device);
  for (unsigned number = 0; number < kMostLinks; ++number)
    if (std::optional<NvmlLink> link = readLink(nvml, device, number))
      read.links.push_back(*link);
  return read;
}

/// Reasons why access is refused, indexed by nvmlGpuP2PStatus_t. Empty for "OK" and "unknown".
constexpr const char *kRefusals[] = {
    "",
    "the chipset does not support peer access",
    "the GPUs do not support peer access",
    "peer access is not supported between their PCIe root complexes",
    "a driver registry key disables peer access",
    "the driver does not support peer access between these GPUs",
    ""};

NvmlPair readPair(const Library &nvml, Handle from, Handle to) {
  constexpr int kRead = 0, kWrite = 1, kNvLink = 2;
  NvmlPair pair;
  for (int capability : {kWrite, kRead})
    if (const auto status = nvml.ask("nvmlDeviceGetP2PStatus", from, to, capability);
        status.value_or(0) < std::size(kRefusals) && *kRefusals[status.value_or(0)])
      pair.refusal = kRefusals[*status];
  if (const auto status = nvml.ask("nvmlDeviceGetP2PStatus", from, to, kNvLink))
    pair.mayUseNvLink = *status == 0;
  pair.ancestor = nvml.ask("nvmlDeviceGetTopologyCommonAncestor", from, to);
  return pair;
}

void readReport(const Library &nvml, NvmlReport &report) {
  report.driver = nvml.askText("nvmlSystemGetDriverVersion");
  report.cudaVersion = nvml.ask<int>("nvmlSystemGetCudaDriverVersion_v2").value_or(0);
  std::vector<Handle> devices;
  const unsigned count = nvml.ask("nvmlDeviceGetCount_v2").value_or(0);
  for (unsigned index = 0; index < std::min(count, kMostDevices); ++index)
    if (const auto device = nvml.ask<Handle>("nvmlDeviceGetHandleByIndex_v2", index))
      devices.push_back(*device);
  for (Handle from : devices) {
    report.devices.push_back(readDevice(nvml, from));
    std::vector<NvmlPair> &pairs = report.pairs.emplace_back();
    for (Handle to : devices)
      pairs.push_back(from == to ? NvmlPair() : readPair(nvml, from, to));
  }
}

} // namespace

Result<NvmlReport> readNvml(const Environment &environment) {
  const std::string file = environment("BRAID_NVML_LIBRARY").value_or("libnvidia-ml.so.1");
  Library library;
  if (!library.open(file))
    return unsupported("NVML: cannot load {}: {}; {}", printable(file), printable(loaderError()),
                       kWhere);
  if (!library.find("nvmlInit_v2"))
    return unsupported("NVML: {} lacks nvmlInit_v2; {}", printable(file), kWhere);
  NvmlReport report;
  report.library = fileOf(library.find("nvmlInit_v2"), file);
  if (const int code = library.call("nvmlInit_v2"); code != 0)
    return unsupported("NVML: cannot initialize {}: {}", printable(report.library), explain(code));
  readReport(library, report);
  (void)library.call("nvmlShutdown");
  return report;
}

std::string normalizedPci(const std::string &address) {
  const std::string lower = llvm::StringRef(address).lower();
  const auto [domain, rest] = llvm::StringRef(lower).split(':');
  const bool isWide = domain.size() == 8 && domain.take_front(4) == "0000";
  return isWide ? fmt::format("{}:{}", domain.drop_front(4).str(), rest.str()) : lower;
}

} // namespace braid
