//===- api/doctor/facts.h - all that `braid doctor` looks at, as values -----------------------===//
//
// Read once, then judged by checks that read nothing more. Where facts come from is a value, too,
// so that a test can put up another machine.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/doctor/process_status.h"
#include "api/machine/topology.h"
#include "runtime/execute/backend.h"

#include <chrono>
#include <map>

namespace braid::doctor {

/// Of a file system, in bytes.
struct Space {
  uint64_t size = 0, available = 0;
};

/// What somebody who may not answer was asked.
template <class Value> struct Answer {
  std::optional<Value> value;
  std::string error;   ///< why there is none
  bool isLate = false; ///< there was none in time
};

/// Limits of this process; nothing: there is none.
struct Limits {
  std::optional<uint64_t> openFiles; ///< the hard one, up to which Braid goes
  std::optional<uint64_t> lockedBytes, processes, addressBytes;
};

/// Where the ranks of a job meet, by a socket.
struct MeetingFolder {
  std::string path;
  std::string source;  ///< the variable that names it; empty: none does
  std::string trouble; ///< why nothing can be made there; empty: it can
  std::optional<Space> space;
  bool isNoExec = false; ///< libraries in it cannot be loaded
  /// What the socket's path is too long by, in jobs of Braid's launcher; and of others, whose jobs
  /// have names.
  int64_t excessBytes = 0, excessOfNamed = 0;
  std::string ignored = {}; ///< the value of TMPDIR, if it is no absolute path
};

/// A GPU of NVIDIA's on the PCI bus, with a driver or without.
struct PciGpu {
  std::string address;
  std::string iommu;                    ///< type of its group, "DMA"; empty: none, or not known
  std::vector<std::string> bridges;     ///< above it, the outermost first
  std::vector<std::string> redirecting; ///< those of them that redirect what peers send (ACS)
};

/// What the ranks of a job tell each other.
struct RankFacts {
  std::map<std::string, std::string> variables;
  uint64_t pidNamespace = 0, ipcNamespace = 0; ///< 0: not known
  std::string gpu; ///< PCI address of the one that it would take; empty: none

  std::string encode() const;
  /// BadInput for what encode() does not make.
  static Result<RankFacts> decode(llvm::StringRef text);
};

struct Facts {
  // Of this process.
  RankFacts own; ///< variables: those that change behaviour here, with empty values
  ProcessStatus status;
  Limits limits;
  int64_t processors = 0; ///< that it may use
  std::optional<int64_t> ptraceScope;

  // Folders.
  MeetingFolder meeting;
  std::optional<Space> sharedMemory; ///< of /dev/shm; nothing: it is not there
  std::string cacheFolder;           ///< empty: none; may be a relative path
  bool isCacheThere = false;         ///< else it is made when it is needed
  std::string cacheTrouble;          ///< why nothing can be written there; empty: it can
  std::optional<Space> cacheSpace;

  // GPUs.
  std::vector<PciGpu> gpus;
  std::string kernelDriver; ///< the line of /proc/driver/nvidia/version; empty: none is loaded
  int64_t deviceFiles = 0;  ///< /dev/nvidia0, ...
  std::chrono::milliseconds patience{0}; ///< with each of the following
  Answer<NvmlReport> nvml;
  Machine machine;      ///< by NVML's numbers
  bool hasCuda = false; ///< this build has
  Answer<BackendFacts> cuda, nccl;

  // The job.
  int64_t ranks = 0;              ///< that are to run here; 0: nobody said
  std::vector<RankFacts> ofRanks; ///< of all ranks, by rank; empty: this is no rank of a job

  bool hasGpu() const;
  std::optional<std::string> variable(const std::string &name) const;
  /// What CUDA says under that name: a text, a number.
  std::optional<std::string> cudaText(const std::string &name) const;
  std::optional<int64_t> cudaNumber(const std::string &name) const;
  /// The PCI address of the GPU that the rank of that number on this host takes: its own, or the
  /// only one that it sees. Empty: there is none.
  std::string gpuOfRank(int64_t localRank) const;
};

/// Where facts come from.
struct Sources {
  std::string root; ///< stands before /proc, /sys and /dev
  std::map<std::string, std::string> variables;
  std::function<Limits()> limits;
  std::function<std::optional<Space>(const std::string &folder)> space;
  /// Whether programs and libraries in a folder cannot be run.
  std::function<bool(const std::string &folder)> isNoExec;
  int64_t processors = 0;
  /// Null: is not asked. TimedOut, if it has no answer within the time.
  std::function<Result<NvmlReport>(const Environment &, std::chrono::milliseconds patience)> nvml;
  /// By name; a null function is not asked. As `nvml` else.
  std::map<std::string, std::function<Result<BackendFacts>(std::chrono::milliseconds patience)>>
      backends;
  std::chrono::milliseconds patience{20000}; ///< with NVML and each backend
};

/// By whom backends are asked.
enum class AskedBy : uint8_t {
  Process, ///< one of its own, which is given up when it is late
  /// One that is late goes on until the process ends. For a process that may have used a GPU: CUDA
  /// works in no copy of it.
  Thread,
};
/// This process's. Its environment is read now. NVML is asked by a process of its own.
Sources processSources(const BackendRegistry &registry, AskedBy askedBy = AskedBy::Process);

/// Blocks for what sources take, NVML and backends at most their patience.
Facts readFacts(const Sources &sources);

/// Variables whose values change what programs here do, of the names of all that are set.
bool changesBehaviour(llvm::StringRef variable);

} // namespace braid::doctor
