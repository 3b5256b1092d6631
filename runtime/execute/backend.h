//===- runtime/execute/backend.h - backends by name -------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/execute/device.h"

#include <functional>
#include <map>

namespace braid {

class Client; // runtime/job/bootstrap/client.h

/// Options for a Cluster. A backend rejects options that it does not support.
struct ClusterOptions {
  int64_t ranks = 1;
  /// Time without progress after which the job fails with TimedOut.
  std::chrono::milliseconds timeout{60000};
  /// If set, commands run one at a time, in a pseudo-random order that respects the order of each
  /// stream and is determined by this seed.
  std::optional<uint64_t> scheduleSeed = {};
  /// If nonzero, stream k uses hardware queue k mod `queues`. Each queue runs commands in order.
  uint32_t queues = 0;
  /// Makes GEMM results depend only on operand values, N, K and types: row i is bitwise identical
  /// for every M and all operand addresses.
  bool reproducible = false;
  /// CUDA device number for a rank that joins a job. -1 selects the GPU whose number is the rank's
  /// index on its host, or the only visible GPU.
  int device = -1;
};

/// The ranks hosted by this process, connected to their peers. Objects that a Cluster returns
/// remain valid for its lifetime.
class Cluster {
public:
  virtual ~Cluster() = default;
  virtual int64_t ranks() const = 0;
  /// The first of the hosted() consecutive ranks in this process. Only these ranks have a Device
  /// and a ControlPlane in this process.
  virtual int64_t firstHosted() const { return 0; }
  virtual int64_t hosted() const { return ranks(); }
  /// The number of consecutive ranks on each host of the job. Empty if ranks are threads of one
  /// process; each program then defines which ranks share a host.
  virtual std::optional<int64_t> ranksPerHost() const { return std::nullopt; }
  /// Registers the Plans of all ranks of a program, so that diagnostics can name the commands of
  /// other ranks. Replaces any program with the same Plan::firstCommand. An empty list unregisters
  /// all programs. The Plans must remain valid until they are unregistered or until the last call
  /// to the cluster.
  virtual void setPlans(llvm::ArrayRef<Plan>) {}
  /// Unregisters the Plans of one program, unless setPlans() has replaced them.
  virtual void forgetPlans(llvm::ArrayRef<Plan>) {}
  /// True if synchronize() returned because of an abort, and a command that may never end is still
  /// running. In this state, the caller must not free memory passed to the device, and must end the
  /// process with std::_Exit(), which runs no destructors.
  virtual bool isStuck() const { return false; }
  virtual Device &device(int64_t rank) = 0;
  virtual ControlPlane &control(int64_t rank) = 0;

  bool hosts(int64_t rank) const {
    return rank >= firstHosted() && rank < firstHosted() + hosted();
  }
  /// Calls `fn(rank)` on one host thread per rank of this process and waits for all calls. If a
  /// rank fails, unblocks all other ranks and returns the first failure.
  Status onEveryRank(const std::function<Status(int64_t rank)> &fn);
  /// Blocks until all work of this process's ranks is complete. After a failure, all ranks return
  /// the same root cause.
  Status synchronize();
  /// Calls ControlPlane::commit() on every rank of this process.
  Status commit();
  /// Fails all ranks with `cause` unless a rank has already failed. Returns the root cause.
  Status fail(const Status &cause);
};

/// Fails with BadInput, naming both layouts, if the program's ranks per host differ from the job's.
Status checkHosts(const Cluster &cluster, const Plan &plan);

/// Properties of the machine and of the libraries that a backend opens, keyed by name. Each backend
/// chooses its own names. Values are plain text.
using BackendFacts = std::map<std::string, std::string>;

struct Backend {
  std::string name;        ///< the value of --backend
  std::string description; ///< one line
  /// False if the backend computes no results (the null backend).
  bool computes = true;
  /// True if the devices can record and replay graphs.
  bool hasGraphs = false;
  /// True if arenas are in host memory. If the backend also computes, each stream has a host
  /// thread.
  bool isOnHost = false;
  /// Number of hardware queues per rank; 0 if every stream has a separate queue. If there are more
  /// streams than queues, the mapping of streams to queues is unspecified.
  uint32_t ownQueues = 0;
  /// The default transport for Plans.
  Transport transport = Transport::PeerMemory;
  /// Opens the messaging library and returns its name, version and path, or an error if the library
  /// cannot be opened. Null if the backend does not support messages.
  std::function<Result<std::string>()> messages = {};
  /// Returns properties for `braid doctor`. Opens the backend's libraries without using a device.
  /// May block for as long as a driver call does. Null if there are no properties to report.
  std::function<BackendFacts()> facts = {};
  /// Creates all ranks in this process. Null if not supported.
  std::function<Result<std::unique_ptr<Cluster>>(const ClusterOptions &)> create = {};
  /// Creates one rank; other processes create the remaining ranks. Null if not supported.
  std::function<Result<std::unique_ptr<Cluster>>(const ClusterOptions &, std::unique_ptr<Client>)>
      join = {};
};

/// Populated by explicit calls (registerCpuBackend, ...), never by static constructors.
class BackendRegistry {
public:
  void add(Backend backend) { backends_.push_back(std::move(backend)); }
  const Backend *find(llvm::StringRef name) const;
  llvm::ArrayRef<Backend> all() const { return backends_; }
  std::vector<std::string> names() const;

private:
  std::vector<Backend> backends_;
};

} // namespace braid
