//===- api/doctor/facts.h - the facts that `braid doctor` checks ------------------------------===//
//
// Facts are read once, up front; checks only evaluate them. Sources are replaceable, so that tests
// can simulate other machines. A fact that cannot be read is unknown, which is not an error.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/machine/nvml.h"
#include "runtime/execute/backend.h"

#include <map>

namespace braid::doctor {

/// The size and the free space of a file system, in bytes.
struct Space {
  uint64_t size = 0, available = 0;
};

/// This process's resource limits; nullopt means unlimited.
struct Limits {
  std::optional<uint64_t> openFiles; ///< the hard limit, to which Braid raises the soft limit
  std::optional<uint64_t> addressBytes;
};

/// An NVIDIA GPU, with facts from NVML, CUDA and /sys.
struct Gpu {
  std::string name;            ///< "GPU 0 (0000:18:00.0)", with CUDA's number or else NVML's
  std::optional<int64_t> cuda; ///< CUDA's device number
  bool isHidden = false;       ///< true if CUDA_VISIBLE_DEVICES hides the GPU from CUDA
  size_t index = 0;            ///< NVML's device number
  NvmlDevice nvml;             ///< without NVML, only the PCI address is known
  std::string iommu;           ///< IOMMU group type, such as "DMA"; empty if unknown or none
};

/// Facts about this process, obtained by system calls.
struct Process {
  std::map<std::string, std::string> variables;
  Limits limits;
  int64_t processors = 0;            ///< number of processors available to this process
  std::optional<Space> sharedMemory; ///< /dev/shm; nullopt if it does not exist

  /// Returns the value of an environment variable, or an empty string if it is not set.
  std::string variable(const std::string &name) const;
  /// Returns the environment variables that are set and not empty.
  Environment environment() const;
};

/// Returns true if a driver or library did not respond in time.
template <class Value> bool isLate(const Result<Value> &answer) {
  return answer.status().code() == StatusCode::TimedOut;
}

struct Facts : Process {
  /// True if this process has its own PID or IPC namespace; nullopt if unknown.
  std::optional<bool> hasOwnPids, hasOwnIpc;

  std::string cache; ///< the directory for stored measurements; empty if none

  std::vector<Gpu> gpus;    ///< visible GPUs first, in CUDA's order
  std::string kernelDriver; ///< first line of /proc/driver/nvidia/version; empty if not loaded
  int64_t deviceFiles = 0;  ///< number of /dev/nvidia0, /dev/nvidia1, ...
  Result<NvmlReport> nvml = unsupported("");
  bool hasCuda = false; ///< true if this build has the cuda backend
  Result<BackendFacts> cuda = unsupported(""), nccl = unsupported("");

  int64_t ranks = 0; ///< number of ranks that will run on this machine; 0 if unknown

  bool hasGpu() const;
  std::vector<Gpu> visibleGpus() const;
  /// Return the cuda backend's fact `name` as text, or as a number; empty if the fact is unknown.
  std::string cudaText(const std::string &name) const;
  std::optional<int64_t> cudaNumber(const std::string &name) const;
  /// Returns the number of GPUs that are visible to CUDA.
  int64_t cudaDevices() const { return cudaNumber("devices").value_or(0); }
  /// Returns true if a driver did not respond. The process must then call std::_Exit() to exit.
  bool isStuck() const { return isLate(nvml) || isLate(cuda) || isLate(nccl); }
};

/// The data sources for readFacts().
struct Sources : Process {
  std::string root; ///< prefix for the paths /proc, /sys and /dev
  std::function<Result<NvmlReport>()> nvml;
  std::map<std::string, std::function<Result<BackendFacts>()>> backends; ///< by name
  std::chrono::milliseconds patience = kNvmlPatience; ///< timeout for NVML and for each backend
};
/// Returns the real sources for this process and machine.
Sources processSources(const BackendRegistry &registry);

/// Reads all facts. Waits at most `patience` for NVML and for each backend.
Facts readFacts(const Sources &sources);

} // namespace braid::doctor
