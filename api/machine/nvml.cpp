//===- api/machine/nvml.cpp - what the driver says about its GPUs, as values ------------------===//

#include "api/machine/nvml.h"

#include "api/machine/nvml_api.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/loader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <type_traits>

namespace braid::nvml {
namespace {

constexpr const char *kWhere = "BRAID_NVML_LIBRARY may name the file";

/// More than any machine has: a library that says more is not taken at its word.
constexpr unsigned kMostDevices = 256;

std::string explain(Code code) {
  switch (code) {
  case Code::DriverNotLoaded:
    return "the driver is not loaded";
  case Code::LibraryMismatch:
    return "it is not of the version of the driver that is loaded";
  case Code::NoPermission:
    return "this user may not ask the driver";
  default:
    return fmt::format("error {}", static_cast<int>(code));
  }
}

/// The library, which is closed when this ends.
struct Library {
  std::unique_ptr<void, int (*)(void *)> handle = {nullptr, dlclose};
  Functions call;
};

/// Opens the library and looks up its functions.
Result<Library> openLibrary(const std::string &file) {
  Library library;
  library.handle.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library.handle)
    return unsupported("NVML: expected {}, got '{}'; {}", printable(file), printable(loaderError()),
                       kWhere);
  auto find = [&](const char *symbol, auto &function) {
    function =
        reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library.handle.get(), symbol));
  };
#define BRAID_NVML_FIND(Name, Arguments) find("nvml" #Name, library.call.Name);
  BRAID_NVML_FUNCTIONS(BRAID_NVML_FIND)
#undef BRAID_NVML_FIND
  if (!library.call.Init_v2 || !library.call.Shutdown)
    return unsupported("NVML: {} lacks nvmlInit_v2; {}", printable(file), kWhere);
  return library;
}

/// The value that `function` stores at its last argument; nothing if it is missing or fails.
template <class Value, class Function, class... Args>
std::optional<Value> ask(Function function, Args... args) {
  Value value{};
  if (!function || function(args..., &value) != Code::Success)
    return std::nullopt;
  return value;
}

template <class Function, class... Args> std::string askText(Function function, Args... args) {
  std::array<char, 128> text = {};
  if (!function || function(args..., text.data(), text.size() - 1) != Code::Success)
    return "";
  return text.data();
}

/// The first of the two values that `function` gives: the current one, not the one after a reset.
template <class Function> std::optional<bool> askCurrent(Function function, Handle *device) {
  unsigned current = 0, pending = 0;
  if (!function || function(device, &current, &pending) != Code::Success)
    return std::nullopt;
  return current != 0;
}

std::optional<bool> isSet(std::optional<unsigned> value) {
  return value ? std::optional(*value != 0) : std::nullopt;
}

std::optional<double> watts(std::optional<unsigned> milliwatts) {
  return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
}

template <class Enum>
std::optional<Enum> oneOf(std::optional<unsigned> value, std::initializer_list<Enum> known) {
  for (Enum each : known)
    if (value == static_cast<unsigned>(each))
      return each;
  return std::nullopt;
}

std::string addressOf(const PciInfo &info) {
  const llvm::StringRef text(info.address, sizeof(info.address));
  return normalizedPci(text.take_until([](char c) { return c == 0; }).str());
}

template <class Function, class... Args> std::string askAddress(Function function, Args... args) {
  const std::optional<PciInfo> info = ask<PciInfo>(function, args...);
  return info ? addressOf(*info) : "";
}

std::optional<uint64_t> askCount(const Functions &call, Handle *device, unsigned link,
                                 LinkCounter counter) {
  if (auto count = ask<unsigned long long>(call.DeviceGetNvLinkErrorCounter, device, link, counter))
    return *count;
  return std::nullopt;
}

std::optional<uint64_t> sum(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a || b ? std::optional(a.value_or(0) + b.value_or(0)) : std::nullopt;
}

std::optional<NvmlLink> readLink(const Functions &call, Handle *device, unsigned number) {
  const std::optional<unsigned> state = ask<unsigned>(call.DeviceGetNvLinkState, device, number);
  if (!state)
    return std::nullopt;
  NvmlLink link;
  link.number = number;
  link.isUp = *state != 0;
  if (!link.isUp)
    return link;
  link.remote = askAddress(call.DeviceGetNvLinkRemotePciInfo_v2, device, number);
  if (auto end = ask<unsigned>(call.DeviceGetNvLinkRemoteDeviceType, device, number))
    link.isToSwitch = *end == static_cast<unsigned>(LinkEnd::Switch);
  link.replays = askCount(call, device, number, LinkCounter::Replay);
  link.recoveries = askCount(call, device, number, LinkCounter::Recovery);
  link.crcErrors = sum(askCount(call, device, number, LinkCounter::CrcFlit),
                       askCount(call, device, number, LinkCounter::CrcData));
  return link;
}

std::optional<unsigned> readLinkSpeed(const Functions &call, Handle *device) {
  FieldValue value{.field = kFieldLinkSpeed};
  if (!call.DeviceGetFieldValues || call.DeviceGetFieldValues(device, 1, &value) != Code::Success ||
      value.code != Code::Success || static_cast<uint32_t>(value.value) == 0)
    return std::nullopt;
  return static_cast<uint32_t>(value.value);
}

std::optional<uint64_t> readClockReasons(const Functions &call, Handle *device) {
  auto reasons = ask<unsigned long long>(call.DeviceGetCurrentClocksEventReasons, device);
  if (!reasons) // what older drivers call it
    reasons = ask<unsigned long long>(call.DeviceGetCurrentClocksThrottleReasons, device);
  return reasons ? std::optional<uint64_t>(*reasons) : std::nullopt;
}

std::optional<uint64_t> readUncorrected(const Functions &call, Handle *device, CounterType type) {
  auto count =
      ask<unsigned long long>(call.DeviceGetTotalEccErrors, device, ErrorType::Uncorrected, type);
  return count ? std::optional<uint64_t>(*count) : std::nullopt;
}

NvmlDevice readDevice(const Functions &call, Handle *device) {
  NvmlDevice read;
  read.name = askText(call.DeviceGetName, device);
  read.uuid = askText(call.DeviceGetUUID, device);
  read.pci = askAddress(call.DeviceGetPciInfo_v3, device);
  if (const auto memory = ask<MemoryInfo>(call.DeviceGetMemoryInfo, device))
    read.memoryBytes = memory->total;
  read.mig = askCurrent(call.DeviceGetMigMode, device);
  read.computeMode = oneOf(ask<unsigned>(call.DeviceGetComputeMode, device),
                           {ComputeMode::Shared, ComputeMode::ExclusiveThread,
                            ComputeMode::Prohibited, ComputeMode::ExclusiveProcess});
  read.isPersistent = isSet(ask<unsigned>(call.DeviceGetPersistenceMode, device));
  read.powerLimit = watts(ask<unsigned>(call.DeviceGetPowerManagementLimit, device));
  read.enforcedPowerLimit = watts(ask<unsigned>(call.DeviceGetEnforcedPowerLimit, device));
  read.defaultPowerLimit = watts(ask<unsigned>(call.DeviceGetPowerManagementDefaultLimit, device));
  read.smClock = ask<unsigned>(call.DeviceGetClockInfo, device, Clock::Sm);
  read.mostSmClock = ask<unsigned>(call.DeviceGetMaxClockInfo, device, Clock::Sm);
  read.clockReasons = readClockReasons(call, device);
  read.ecc = askCurrent(call.DeviceGetEccMode, device);
  read.uncorrected = readUncorrected(call, device, CounterType::SinceBoot);
  read.uncorrectedEver = readUncorrected(call, device, CounterType::Lifetime);
  read.pcieWidth = ask<unsigned>(call.DeviceGetCurrPcieLinkWidth, device);
  read.mostPcieGeneration = ask<unsigned>(call.DeviceGetMaxPcieLinkGeneration, device);
  read.mostPcieWidth = ask<unsigned>(call.DeviceGetMaxPcieLinkWidth, device);
  read.linkMBps = readLinkSpeed(call, device);
  for (unsigned number = 0; number < kMostLinks; ++number)
    if (std::optional<NvmlLink> link = readLink(call, device, number))
      read.links.push_back(*link);
  return read;
}

std::optional<PeerStatus> readPeer(const Functions &call, Handle *from, Handle *to,
                                   PeerCapability capability) {
  return oneOf(ask<unsigned>(call.DeviceGetP2PStatus, from, to, capability),
               {PeerStatus::Ok, PeerStatus::Chipset, PeerStatus::Gpu, PeerStatus::Topology,
                PeerStatus::Disabled, PeerStatus::NotSupported, PeerStatus::Unknown});
}

NvmlPair readPair(const Functions &call, Handle *from, Handle *to) {
  return {.read = readPeer(call, from, to, PeerCapability::Read),
          .write = readPeer(call, from, to, PeerCapability::Write),
          .nvLink = readPeer(call, from, to, PeerCapability::NvLink),
          .ancestor = oneOf(ask<unsigned>(call.DeviceGetTopologyCommonAncestor, from, to),
                            {CommonAncestor::Board, CommonAncestor::OneSwitch,
                             CommonAncestor::Switches, CommonAncestor::HostBridge,
                             CommonAncestor::NumaNode, CommonAncestor::System})};
}

std::vector<Handle *> devicesOf(const Functions &call) {
  std::vector<Handle *> devices;
  const unsigned count = std::min(ask<unsigned>(call.DeviceGetCount_v2).value_or(0), kMostDevices);
  for (unsigned index = 0; index < count; ++index)
    if (auto device = ask<Handle *>(call.DeviceGetHandleByIndex_v2, index))
      devices.push_back(*device);
  return devices;
}

void readReport(const Functions &call, NvmlReport &report) {
  report.driver = askText(call.SystemGetDriverVersion);
  report.cudaVersion = ask<int>(call.SystemGetCudaDriverVersion_v2).value_or(0);
  const std::vector<Handle *> devices = devicesOf(call);
  for (Handle *from : devices) {
    report.devices.push_back(readDevice(call, from));
    std::vector<NvmlPair> &pairs = report.pairs.emplace_back();
    for (Handle *to : devices)
      pairs.push_back(from == to ? NvmlPair() : readPair(call, from, to));
  }
}

Result<NvmlReport> read(const Environment &environment) {
  const std::string file = environment("BRAID_NVML_LIBRARY").value_or("libnvidia-ml.so.1");
  const Library library = BRAID_TRY(openLibrary(file));
  NvmlReport report;
  report.library = fileOf(reinterpret_cast<const void *>(library.call.Init_v2), file);
  if (const Code code = library.call.Init_v2(); code != Code::Success)
    return unsupported("NVML: {} does not start: {}", printable(report.library), explain(code));
  readReport(library.call, report);
  (void)library.call.Shutdown();
  return report;
}

} // namespace
} // namespace braid::nvml

namespace braid {

Result<NvmlReport> readNvml(const Environment &environment) { return nvml::read(environment); }

std::string normalizedPci(const std::string &address) {
  const std::string lower = llvm::StringRef(address).lower();
  const auto [domain, rest] = llvm::StringRef(lower).split(':');
  const bool isWide = domain.size() == 8 && domain.take_front(4) == "0000";
  return isWide ? fmt::format("{}:{}", domain.drop_front(4).str(), rest.str()) : lower;
}

std::string strOf(PeerStatus status) {
  switch (status) {
  case PeerStatus::Ok:
  case PeerStatus::Unknown:
    return "";
  case PeerStatus::Chipset:
    return "the chipset does not support it";
  case PeerStatus::Gpu:
    return "the GPUs do not support it";
  case PeerStatus::Topology:
    return "they are below root complexes between which it is not supported";
  case PeerStatus::Disabled:
    return "it is switched off by a key of the driver's registry";
  case PeerStatus::NotSupported:
    return "the driver does not support it between them";
  }
  return "";
}

} // namespace braid
