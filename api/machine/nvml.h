//===- api/machine/nvml.h - facts about the GPUs of a machine, from NVML ----------------------===//
//
// Each call to readNvml() opens and closes NVML. Values that NVML does not support or refuses to
// report are left empty; this is not an error.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/failure.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// Restricts which processes may use a device.
enum class ComputeMode : unsigned {
  Shared = 0, ///< any number of processes
  ExclusiveThread = 1,
  Prohibited = 2,
  ExclusiveProcess = 3,
};

/// Reasons for reduced clocks, as bits of NvmlDevice::clockReasons.
enum class ClockReason : uint64_t {
  Setting = 0x2, ///< the user has set the clocks
  PowerCap = 0x4,
  Hardware = 0x8, ///< one of the reasons below, or insufficient current
  SyncBoost = 0x10,
  Heat = 0x20,         ///< reduced by software
  HardwareHeat = 0x40, ///< reduced by hardware, to half or less
  PowerBrake = 0x80,   ///< requested by the power supply
};

/// One end of a device's NVLink.
struct NvmlLink {
  int64_t number = 0;
  bool isUp = false;
  std::string remote; ///< PCI address of the other end; empty if unknown
  bool isToSwitch = false;
  uint64_t errors = 0; ///< replays, recoveries and CRC errors since the driver was loaded
};

/// A device. Clocks are in MHz, and power is in watts.
struct NvmlDevice {
  std::string name, uuid;
  std::string pci; ///< in the form of normalizedPci(); empty if unknown
  std::optional<uint64_t> memoryBytes;
  std::optional<bool> mig, ecc;
  std::optional<ComputeMode> computeMode;
  std::optional<double> powerLimit, defaultPowerLimit;
  std::optional<unsigned> smClock, mostSmClock;
  std::optional<uint64_t> clockReasons;                 ///< bits of ClockReason
  std::optional<uint64_t> uncorrected, uncorrectedEver; ///< ECC errors since boot, and in total
  std::optional<unsigned> pcieWidth, mostPcieWidth, mostPcieGeneration;
  std::optional<unsigned> linkMBps; ///< signaling rate of one NVLink, one way, in 10^6 bytes/s
  std::vector<NvmlLink> links;
};

/// NVML's report about one device's access to another device's memory.
struct NvmlPair {
  std::string refusal; ///< why access is refused; empty if access is possible or unknown
  std::optional<bool> mayUseNvLink;
  std::optional<unsigned> ancestor; ///< closest common ancestor, as an nvmlGpuTopologyLevel_t
};

struct NvmlReport {
  std::string library; ///< path of the library
  std::string driver;  ///< version, such as "580.95.05"; empty if unknown
  int cudaVersion = 0; ///< newest supported version, such as 13000 for 13.0; 0 if unknown
  std::vector<NvmlDevice> devices;
  std::vector<std::vector<NvmlPair>> pairs; ///< [source][destination]; the diagonal is empty
};

/// Opens the library $BRAID_NVML_LIBRARY, or by default libnvidia-ml.so.1. Blocks for about 100 ms,
/// or forever if the driver hangs: see askWithin(). Returns Unsupported, with a one-line message,
/// if the library does not exist, or cannot be loaded or initialized.
Result<NvmlReport> readNvml(const Environment &environment);

/// Runs `ask` on a separate thread, and returns its result. If `ask` takes longer than `patience`,
/// returns TimedOut and leaves the thread running. Callers should then exit with std::_Exit(),
/// because destructors must not run while the thread is running. `what` names the callee in
/// messages.
template <class Value>
Result<Value> askWithin(std::chrono::milliseconds patience, const char *what,
                        std::function<Result<Value>()> ask) {
  auto task = std::make_shared<std::packaged_task<Result<Value>()>>(std::move(ask));
  std::future<Result<Value>> answer = task->get_future();
  std::thread thread;
  BRAID_TRY(startThread(thread, "querying the driver", [task] { (*task)(); }));
  thread.detach();
  if (answer.wait_for(patience) != std::future_status::ready)
    return timedOut("the driver did not respond to {} within {} ms: nvidia-smi would also hang",
                    what, patience.count());
  return answer.get();
}

/// The default timeout. A driver that has just been loaded takes a second or two per GPU.
inline constexpr std::chrono::milliseconds kNvmlPatience{20000};

/// Converts a PCI address to lower case, with a 4-digit domain if possible, such as "0000:18:00.0".
std::string normalizedPci(const std::string &address);

} // namespace braid
