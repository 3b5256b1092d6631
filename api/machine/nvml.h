//===- api/machine/nvml.h - what the driver says about its GPUs, as values --------------------===//
//
// NVML is opened when it is asked, and closed again. What it does not offer, or refuses to say, is
// "not known" in the report and never a failure.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/job/bootstrap/environment.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// Who may use a device.
enum class ComputeMode : uint8_t {
  Shared = 0, ///< any number of processes
  ExclusiveThread = 1,
  Prohibited = 2,
  ExclusiveProcess = 3,
};

/// Why clocks are lower than they could be: bits of NvmlDevice::clockReasons.
enum class ClockReason : uint64_t {
  Idle = 0x1,
  Setting = 0x2, ///< somebody has set the clocks
  PowerCap = 0x4,
  Hardware = 0x8, ///< one of those below, or too little current
  SyncBoost = 0x10,
  Heat = 0x20,         ///< by software
  HardwareHeat = 0x40, ///< by hardware, halved or more
  PowerBrake = 0x80,   ///< the power supply asks for it
  Display = 0x100,
};

/// One end of an NvLink that the device has.
struct NvmlLink {
  int64_t number = 0;
  bool isUp = false;
  std::string remote; ///< PCI address of the other end; empty: not known
  std::optional<bool> isToSwitch;
  std::optional<uint64_t> replays, recoveries, crcErrors; ///< since the driver started
};

/// A device. Clocks in MHz, power in watts.
struct NvmlDevice {
  std::string name, uuid;
  std::string pci;                     ///< as normalizedPci(); empty: not known
  std::optional<uint64_t> memoryBytes; ///< all of it
  std::optional<bool> mig;
  std::optional<ComputeMode> computeMode;
  std::optional<bool> isPersistent;
  std::optional<double> powerLimit, enforcedPowerLimit, defaultPowerLimit;
  std::optional<unsigned> smClock, mostSmClock;
  std::optional<uint64_t> clockReasons; ///< bits of ClockReason
  std::optional<bool> ecc;
  std::optional<uint64_t> uncorrected, uncorrectedEver; ///< ECC errors since boot; in its life
  std::optional<unsigned> mostPcieGeneration, mostPcieWidth, pcieWidth; ///< the last one: now
  std::optional<unsigned> linkMBps; ///< what one NvLink signals, one way; 10^6 bytes a second
  std::vector<NvmlLink> links;      ///< those it has, by number
};

/// What the driver says about access from one device to another's memory.
enum class PeerStatus : uint8_t {
  Ok = 0,
  Chipset = 1,
  Gpu = 2,
  Topology = 3, ///< they are below different I/O hubs
  Disabled = 4, ///< by a key of the driver's registry
  NotSupported = 5,
  Unknown = 6,
};
/// "the chipset does not support it"; empty for Ok and Unknown.
std::string strOf(PeerStatus status);

/// Where two devices' ways to memory meet.
enum class CommonAncestor : uint8_t {
  Board = 0,
  OneSwitch = 10,
  Switches = 20,
  HostBridge = 30,
  NumaNode = 40,
  System = 50,
};

struct NvmlPair {
  std::optional<PeerStatus> read, write, nvLink;
  std::optional<CommonAncestor> ancestor;
};

/// All that is asked.
struct NvmlReport {
  std::string library; ///< the file
  std::string driver;  ///< "580.95.05"; empty: not known
  int cudaVersion = 0; ///< that the driver supports, 13000 for 13.0; 0: not known
  std::vector<NvmlDevice> devices;
  std::vector<std::vector<NvmlPair>> pairs; ///< from a device, to a device; the own one is empty
};

/// Opens the library that BRAID_NVML_LIBRARY names, else libnvidia-ml.so.1 where the loader looks.
/// Blocks for the driver, some 100 ms or for ever: see ask_nvml.h. Unsupported, in one line, if
/// there is none, if it cannot be loaded, or if it does not start.
Result<NvmlReport> readNvml(const Environment &environment);

/// "0000:18:00.0" of "00000000:18:00.0" and of upper case; other texts stay.
std::string normalizedPci(const std::string &address);

} // namespace braid
