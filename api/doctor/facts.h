//===- api/doctor/facts.h - what `braid doctor` looks at --------------------------------------===//
//
// Facts are read once; checks judge them and read nothing more. Sources say where facts come from,
// so that a test can describe another machine. A fact that cannot be read is unknown, not an error.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/machine/ask_nvml.h"
#include "runtime/execute/backend.h"

#include <map>

namespace braid::doctor {

/// Size and free space of a file system, in bytes.
struct Space {
  uint64_t size = 0, available = 0;
};

/// The answer of a driver or a library.
template <class Value> struct Answer {
  std::optional<Value> value;
  std::string error;   ///< why there is no value; empty if nobody was asked
  bool isLate = false; ///< no answer in time
};

/// Limits of this process; nothing means unlimited.
struct Limits {
  std::optional<uint64_t> openFiles; ///< the hard limit, to which Braid raises the soft one
  std::optional<uint64_t> addressBytes;
};

/// A folder, and why no file can be created in it (empty: it can).
struct Folder {
  std::string path, trouble;
  std::optional<Space> space;
};

/// Whether a PCI bridge redirects transfers between the devices below it to the root complex: the
/// access control services (ACS) in its configuration space. Nothing if unknown, because
/// unprivileged users see the first bytes of that space only.
std::optional<bool> redirectsPeers(llvm::StringRef configuration);

/// An NVIDIA GPU, as NVML, CUDA and /sys know it.
struct Gpu {
  std::string pci;
  std::string name;            ///< "GPU 0 (0000:18:00.0)": CUDA's number, or NVML's without CUDA
  std::optional<int64_t> cuda; ///< CUDA's number
  bool isHidden = false;       ///< CUDA_VISIBLE_DEVICES hides it from CUDA
  size_t index = 0;            ///< NVML's number
  NvmlDevice nvml;
  std::string iommu;                    ///< type of its IOMMU group, "DMA"; empty: unknown or none
  std::vector<std::string> bridges;     ///< the bridges above it, the outermost first
  std::vector<std::string> redirecting; ///< the subset that redirects transfers (ACS)
};

struct Facts {
  std::map<std::string, std::string> variables;
  Limits limits;
  int64_t processors = 0; ///< that this process may use
  /// Nothing: unknown.
  std::optional<bool> hasOwnPids, hasOwnIpc;

  Folder cache;                      ///< holds measurements; an empty path: none
  std::optional<Space> sharedMemory; ///< /dev/shm; nothing: it does not exist

  std::vector<Gpu> gpus;    ///< visible ones first, in CUDA's order
  std::string kernelDriver; ///< first line of /proc/driver/nvidia/version; empty: not loaded
  int64_t deviceFiles = 0;  ///< number of /dev/nvidia0, /dev/nvidia1, ...
  Answer<NvmlReport> nvml;
  bool hasCuda = false; ///< this build has the cuda backend
  Answer<BackendFacts> cuda, nccl;

  int64_t ranks = 0; ///< that are to run here; 0: unknown

  bool hasGpu() const;
  std::vector<Gpu> visibleGpus() const;
  /// Empty if it is not set.
  std::string variable(const std::string &name) const;
  /// The answer of CUDA under that name, as text and as number.
  std::string cudaText(const std::string &name) const;
  std::optional<int64_t> cudaNumber(const std::string &name) const;
  /// Number of GPUs that CUDA sees.
  int64_t cudaDevices() const { return cudaNumber("devices").value_or(0); }
  /// A driver did not answer: the process is to end by std::_Exit().
  bool isStuck() const { return nvml.isLate || cuda.isLate || nccl.isLate; }
};

/// The sources of facts.
struct Sources {
  std::string root; ///< prefix of /proc, /sys and /dev
  std::map<std::string, std::string> variables;
  Limits limits;
  int64_t processors = 0;
  std::function<std::optional<Space>(const std::string &folder)> space;
  std::function<Result<NvmlReport>(const Environment &)> nvml;
  std::map<std::string, std::function<Result<BackendFacts>()>> backends; ///< by name
  std::chrono::milliseconds patience = kNvmlPatience; ///< with NVML and each backend
};
/// This process's.
Sources processSources(const BackendRegistry &registry);

/// Blocks for at most `patience` with NVML and with each backend.
Facts readFacts(const Sources &sources);

} // namespace braid::doctor
