//===- api/machine/nvml_api.h - the part of NVML's interface that is used ---------------------===//
//
// Declared here, so that neither the driver nor a header of it is needed to build: the library is
// opened at run time. Values and layouts are those that NVML documents for its ABI, which drivers
// keep.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace braid::nvml {

enum class Code : int {
  Success = 0,
  NotSupported = 3,
  NoPermission = 4,
  DriverNotLoaded = 9,
  LibraryMismatch = 18, ///< the library is not of the driver that is loaded
};

enum class Clock : int { Sm = 1 };
enum class ErrorType : int { Corrected = 0, Uncorrected = 1 };
enum class CounterType : int { SinceBoot = 0, Lifetime = 1 };
enum class PeerCapability : int { Read = 0, Write = 1, NvLink = 2 };
enum class LinkCounter : int { Replay = 0, Recovery = 1, CrcFlit = 2, CrcData = 3 };
enum class LinkEnd : unsigned { Gpu = 0, Switch = 2 };

inline constexpr unsigned kMostLinks = 36;

/// nvmlPciInfo_t.
struct PciInfo {
  char oldAddress[16];
  unsigned domain, bus, device, deviceId, subsystemId;
  char address[32]; ///< "00000000:18:00.0"
};
static_assert(sizeof(PciInfo) == 68);

/// nvmlFieldValue_t. Its union is as wide as a 64-bit number; the first 32 bits are a 32-bit one.
struct FieldValue {
  unsigned field = 0, scope = 0;
  int64_t timestamp = 0, latencyUs = 0;
  unsigned type = 0;
  Code code = Code::Success;
  uint64_t value = 0;
};
static_assert(sizeof(FieldValue) == 40);

/// Of one link of the device, in one direction, what it signals: MB/s.
inline constexpr unsigned kFieldLinkSpeed = 90;

/// nvmlMemory_t, in bytes.
struct MemoryInfo {
  unsigned long long total, free, used;
};
static_assert(sizeof(MemoryInfo) == 24);

struct Handle; ///< a device, the library's

/// Entry points, without the prefix `nvml`. NAME(name, arguments)
#define BRAID_NVML_FUNCTIONS(NAME)                                                                 \
  NAME(Init_v2, ())                                                                                \
  NAME(Shutdown, ())                                                                               \
  NAME(SystemGetDriverVersion, (char *, unsigned))                                                 \
  NAME(SystemGetCudaDriverVersion_v2, (int *))                                                     \
  NAME(DeviceGetCount_v2, (unsigned *))                                                            \
  NAME(DeviceGetHandleByIndex_v2, (unsigned, Handle **))                                           \
  NAME(DeviceGetName, (Handle *, char *, unsigned))                                                \
  NAME(DeviceGetUUID, (Handle *, char *, unsigned))                                                \
  NAME(DeviceGetPciInfo_v3, (Handle *, PciInfo *))                                                 \
  NAME(DeviceGetMemoryInfo, (Handle *, MemoryInfo *))                                              \
  NAME(DeviceGetMigMode, (Handle *, unsigned *, unsigned *))                                       \
  NAME(DeviceGetComputeMode, (Handle *, unsigned *))                                               \
  NAME(DeviceGetPersistenceMode, (Handle *, unsigned *))                                           \
  NAME(DeviceGetPowerManagementLimit, (Handle *, unsigned *))                                      \
  NAME(DeviceGetEnforcedPowerLimit, (Handle *, unsigned *))                                        \
  NAME(DeviceGetPowerManagementDefaultLimit, (Handle *, unsigned *))                               \
  NAME(DeviceGetClockInfo, (Handle *, Clock, unsigned *))                                          \
  NAME(DeviceGetMaxClockInfo, (Handle *, Clock, unsigned *))                                       \
  NAME(DeviceGetCurrentClocksEventReasons, (Handle *, unsigned long long *))                       \
  NAME(DeviceGetCurrentClocksThrottleReasons, (Handle *, unsigned long long *))                    \
  NAME(DeviceGetEccMode, (Handle *, unsigned *, unsigned *))                                       \
  NAME(DeviceGetTotalEccErrors, (Handle *, ErrorType, CounterType, unsigned long long *))          \
  NAME(DeviceGetNvLinkState, (Handle *, unsigned, unsigned *))                                     \
  NAME(DeviceGetNvLinkRemotePciInfo_v2, (Handle *, unsigned, PciInfo *))                           \
  NAME(DeviceGetNvLinkRemoteDeviceType, (Handle *, unsigned, unsigned *))                          \
  NAME(DeviceGetNvLinkErrorCounter, (Handle *, unsigned, LinkCounter, unsigned long long *))       \
  NAME(DeviceGetFieldValues, (Handle *, int, FieldValue *))                                        \
  NAME(DeviceGetCurrPcieLinkWidth, (Handle *, unsigned *))                                         \
  NAME(DeviceGetMaxPcieLinkGeneration, (Handle *, unsigned *))                                     \
  NAME(DeviceGetMaxPcieLinkWidth, (Handle *, unsigned *))                                          \
  NAME(DeviceGetP2PStatus, (Handle *, Handle *, PeerCapability, unsigned *))                       \
  NAME(DeviceGetTopologyCommonAncestor, (Handle *, Handle *, unsigned *))

/// The library's functions, at members that are named without its prefix; null: it has no such one.
struct Functions {
#define BRAID_NVML_MEMBER(Name, Arguments) Code(*Name) Arguments = nullptr;
  BRAID_NVML_FUNCTIONS(BRAID_NVML_MEMBER)
#undef BRAID_NVML_MEMBER
};

} // namespace braid::nvml
