//===- api/machine/nvml.h - facts about the GPUs of a machine, from NVML ----------------------===//
//
// NVML is opened for each report and closed again. Values that it does not offer or refuses to
// report are empty, which is not a failure.
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

/// The reasons why clocks are reduced: bits of NvmlDevice::clockReasons.
enum class ClockReason : uint64_t {
  Setting = 0x2, ///< the user has set the clocks
  PowerCap = 0x4,
  Hardware = 0x8, ///< one of the reasons below, or insufficient current
  SyncBoost = 0x10,
  Heat = 0x20,         ///< reduced by software
  HardwareHeat = 0x40, ///< reduced by hardware, to half or less
  PowerBrake = 0x80,   ///< requested by the power supply
};

/// One end of an NvLink of a device.
struct NvmlLink {
  int64_t number = 0;
  bool isUp = false;
  std::string remote; ///< PCI address of the other end; empty if unknown
  bool isToSwitch = false;
  uint64_t errors = 0; ///< replays, recoveries and checksums since the driver started
};

/// A device. Clocks are in MHz, power is in watts.
struct NvmlDevice {
  std::string name, uuid;
  std::string pci; ///< as normalizedPci(); empty if unknown
  std::optional<uint64_t> memoryBytes;
  std::optional<bool> mig, ecc;
  std::optional<ComputeMode> computeMode;
  std::optional<double> powerLimit, defaultPowerLimit;
  std::optional<unsigned> smClock, mostSmClock;
  std::optional<uint64_t> clockReasons;                 ///< bits of ClockReason
  std::optional<uint64_t> uncorrected, uncorrectedEver; ///< ECC errors since boot; in total
  std::optional<unsigned> pcieWidth, mostPcieWidth, mostPcieGeneration;
  std::optional<unsigned> linkMBps; ///< signalling rate of one NvLink, one way; 10^6 bytes/s
  std::vector<NvmlLink> links;
};

/// The driver's answers about access from one device to another device's memory.
struct NvmlPair {
  std::string refusal; ///< why access is refused; empty if access is possible, or unknown
  std::optional<bool> mayUseNvLink;
  std::optional<unsigned> ancestor; ///< the closest common one: an nvmlGpuTopologyLevel_t
};

struct NvmlReport {
  std::string library; ///< the library's file
  std::string driver;  ///< "580.95.05"; empty if unknown
  int cudaVersion = 0; ///< supported by the driver, 13000 for 13.0; 0 if unknown
  std::vector<NvmlDevice> devices;
  std::vector<std::vector<NvmlPair>> pairs; ///< [source][destination]; the diagonal is empty
};

/// Opens the library in BRAID_NVML_LIBRARY, or else libnvidia-ml.so.1. Waits for the driver, about
/// 100 ms or forever: see askNvml(). Returns Unsupported, with one line, if there is no library, or
/// if it cannot be loaded or started.
Result<NvmlReport> readNvml(const Environment &environment);

/// Returns "0000:18:00.0" for "00000000:18:00.0" and for upper case. Other texts are unchanged.
std::string normalizedPci(const std::string &address);

} // namespace braid
