//===- api/machine/nvml.h - what the driver says about its GPUs, as values --------------------===//
//
// NVML is opened for each report and closed again. What it does not offer or refuses to say is
// nothing in the report, and no failure.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "runtime/job/bootstrap/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// The processes that may use a device.
enum class ComputeMode : unsigned {
  Shared = 0, ///< any number of processes
  ExclusiveThread = 1,
  Prohibited = 2,
  ExclusiveProcess = 3,
};

/// Why clocks are lower than they could be: bits of NvmlDevice::clockReasons.
enum class ClockReason : uint64_t {
  Setting = 0x2, ///< somebody has set the clocks
  PowerCap = 0x4,
  Hardware = 0x8, ///< one of those below, or too little current
  SyncBoost = 0x10,
  Heat = 0x20,         ///< by software
  HardwareHeat = 0x40, ///< by hardware, halved or more
  PowerBrake = 0x80,   ///< the power supply asks for it
};

/// One end of an NvLink of a device.
struct NvmlLink {
  int64_t number = 0;
  bool isUp = false;
  std::string remote; ///< PCI address of the other end; empty: unknown
  bool isToSwitch = false;
  uint64_t errors = 0; ///< replays, recoveries and checksums since the driver started
};

/// A device. Clocks in MHz, power in watts.
struct NvmlDevice {
  std::string name, uuid;
  std::string pci; ///< as normalizedPci(); empty: unknown
  std::optional<uint64_t> memoryBytes;
  std::optional<bool> mig, ecc;
  std::optional<ComputeMode> computeMode;
  std::optional<double> powerLimit, defaultPowerLimit;
  std::optional<unsigned> smClock, mostSmClock;
  std::optional<uint64_t> clockReasons;                 ///< bits of ClockReason
  std::optional<uint64_t> uncorrected, uncorrectedEver; ///< ECC errors since boot; in its life
  std::optional<unsigned> pcieWidth, mostPcieWidth, mostPcieGeneration;
  std::optional<unsigned> linkMBps; ///< signalling rate of one NvLink, one way; 10^6 bytes a second
  std::vector<NvmlLink> links;
};

/// The place where the paths of two devices to memory meet.
enum class CommonAncestor : unsigned {
  Board = 0,
  OneSwitch = 10,
  Switches = 20,
  HostBridge = 30,
  NumaNode = 40,
  System = 50,
};

/// The driver's answers about access from one device to another's memory.
struct NvmlPair {
  std::string refusal; ///< why there is none; empty: there is, or unknown
  std::optional<bool> mayUseNvLink;
  std::optional<CommonAncestor> ancestor;
};

struct NvmlReport {
  std::string library; ///< the file
  std::string driver;  ///< "580.95.05"; empty: unknown
  int cudaVersion = 0; ///< that the driver supports, 13000 for 13.0; 0: unknown
  std::vector<NvmlDevice> devices;
  std::vector<std::vector<NvmlPair>> pairs; ///< from a device, to a device; the own one is empty
};

/// Opens the library that BRAID_NVML_LIBRARY names, else libnvidia-ml.so.1. Blocks for the driver,
/// about 100 ms or for ever: see askNvml(). Unsupported, in one line, if there is none, if it
/// cannot be loaded, or if it does not start.
Result<NvmlReport> readNvml(const Environment &environment);

/// "0000:18:00.0" for "00000000:18:00.0" and for upper case; other texts stay.
std::string normalizedPci(const std::string &address);

} // namespace braid
