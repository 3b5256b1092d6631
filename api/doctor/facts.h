//===- api/doctor/facts.h - the facts that `braid doctor` checks ------------------------------===//
//
// Facts are read once; checks only evaluate them. Sources are replaceable, so that a test can
// describe another machine. A fact that cannot be read is unknown, which is not an error.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/machine/ask_nvml.h"
#include "runtime/execute/backend.h"

#include <map>

namespace braid::doctor {

/// The size and the free space of a file system, in bytes.
struct Space {
  uint64_t size = 0, available = 0;
};

/// The response of a driver or a library.
template <class Value> struct Answer {
  std::optional<Value> value;
  std::string error;   ///< why there is no value; empty if the call was not made
  bool isLate = false; ///< the call timed out
};

/// The limits of this process; nullopt means unlimited.
struct Limits {
  std::optional<uint64_t> openFiles; ///< the hard limit, to which Braid raises the soft limit
  std::optional<uint64_t> addressBytes;
};

/// An NVIDIA GPU, with facts from NVML, CUDA and /sys.
struct Gpu {
  std::string pci;
  std::string name;            ///< "GPU 0 (0000:18:00.0)": CUDA's number, or NVML's without CUDA
  std::optional<int64_t> cuda; ///< CUDA's number
  bool isHidden = false;       ///< CUDA_VISIBLE_DEVICES hides it from CUDA
  size_t index = 0;            ///< NVML's number
  NvmlDevice nvml;
  std::string iommu; ///< IOMMU group type, "DMA"; empty if unknown or none
};

struct Facts {
  std::map<std::string, std::string> variables;
  Limits limits;
  int64_t processors = 0; ///< available to this process
  /// nullopt if unknown
  std::optional<bool> hasOwnPids, hasOwnIpc;

  std::string cache;                 ///< the folder of measurements, or an empty string
  std::optional<Space> sharedMemory; ///< /dev/shm; nullopt if it does not exist

  std::vector<Gpu> gpus;    ///< visible ones first, in CUDA's order
  std::string kernelDriver; ///< first line of /proc/driver/nvidia/version; empty if not loaded
  int64_t deviceFiles = 0;  ///< number of /dev/nvidia0, /dev/nvidia1, ...
  Answer<NvmlReport> nvml;
  bool hasCuda = false; ///< this build has the cuda backend
  Answer<BackendFacts> cuda, nccl;

  int64_t ranks = 0; ///< number of ranks to be run here; 0 if unknown

  bool hasGpu() const;
  std::vector<Gpu> visibleGpus() const;
  /// Returns an empty string if the variable is not set.
  std::string variable(const std::string &name) const;
  /// Return CUDA's value for a name, as text and as number.
  std::string cudaText(const std::string &name) const;
  std::optional<int64_t> cudaNumber(const std::string &name) const;
  /// The number of GPUs that CUDA sees.
  int64_t cudaDevices() const { return cudaNumber("devices").value_or(0); }
  /// Returns true if a driver did not respond; then the process must end by std::_Exit().
  bool isStuck() const { return nvml.isLate || cuda.isLate || nccl.isLate; }
};

/// The sources of the facts.
struct Sources {
  std::string root; ///< prefix of /proc, /sys and /dev
  std::map<std::string, std::string> variables;
  Limits limits;
  int64_t processors = 0;
  std::optional<Space> sharedMemory; ///< /dev/shm; nullopt if it does not exist
  std::function<Result<NvmlReport>(const Environment &)> nvml;
  std::map<std::string, std::function<Result<BackendFacts>()>> backends; ///< by name
  std::chrono::milliseconds patience = kNvmlPatience; ///< for NVML and for each backend
};
/// Returns the sources of this process.
Sources processSources(const BackendRegistry &registry);

/// Reads all facts. Blocks for at most `patience` for NVML and for each backend.
Facts readFacts(const Sources &sources);

} // namespace braid::doctor
