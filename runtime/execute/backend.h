//===- runtime/execute/backend.h - backends by name -------------------------------------------===//
#pragma once

#include "runtime/execute/control_plane.h"
#include "runtime/execute/device.h"

#include <functional>
#include <map>

namespace braid {

class Client; // runtime/job/bootstrap/client.h

/// Options for the ranks of one run. A backend refuses an option that it cannot honour.
struct ClusterOptions {
  int64_t ranks = 1;
  /// Time without progress after which the job fails with TimedOut.
  std::chrono::milliseconds timeout{60000};
  /// If set, commands run one at a time, in an order drawn with this seed from all that the streams
  /// allow. The same seed gives the same order. Backends that cannot do this refuse it.
  std::optional<uint64_t> scheduleSeed = {};
  /// If not 0, stream k uses hardware queue k mod queues, which issues in order.
  uint32_t queues = 0;
  /// Makes GEMM results depend only on operand values, N, K and types: row i has the same bits for
  /// every M and every operand address.
  bool reproducible = false;
  /// CUDA's device number for a rank that joins. -1 selects the rank's index on its host, or the
  /// only GPU.
  int device = -1;
};

/// The ranks hosted by this process, connected to their peers. Objects that a Cluster returns
/// remain valid for its lifetime.
class Cluster {
public:
  virtual ~Cluster() = default;
  virtual int64_t ranks() const = 0;
  /// The first of the hosted() consecutive ranks in this process. Only these have a Device and a
  /// ControlPlane here.
  virtual int64_t firstHosted() const { return 0; }
  virtual int64_t hosted() const { return ranks(); }
  /// The number of consecutive ranks on each host of the job. Empty if ranks are threads of one
  /// process: then each program defines the hosts of its ranks.
  virtual std::optional<int64_t> ranksPerHost() const { return std::nullopt; }
  /// Registers the Plans of all ranks of one program, so that messages can name the commands of
  /// other ranks. Replaces a program with the same numbers (Plan::firstCommand). An empty list
  /// forgets all programs. The Plans must remain valid until they are forgotten or until the last
  /// call to the cluster.
  virtual void setPlans(llvm::ArrayRef<Plan>) {}
  /// Forgets the Plans of one program, unless setPlans() has replaced them.
  virtual void forgetPlans(llvm::ArrayRef<Plan>) {}
  /// True if a command is still running after synchronize() has returned because of an abort; it
  /// may never end. The caller must not free memory that it passed to the device, and must end the
  /// process without running destructors: std::_Exit().
  virtual bool isStuck() const { return false; }
  virtual Device &device(int64_t rank) = 0;
  virtual ControlPlane &control(int64_t rank) = 0;

  bool hosts(int64_t rank) const {
    return rank >= firstHosted() && rank < firstHosted() + hosted();
  }
  /// Calls `fn(rank)` on one host thread per rank of this process and waits for all. If a rank
  /// fails, blocked calls of all ranks return; the result is the first failure.
  Status onEveryRank(const std::function<Status(int64_t rank)> &fn);
  /// Blocks until every rank of this process is done. All ranks return the same first cause of a
  /// failure.
  Status synchronize();
  /// Calls ControlPlane::commit() on every rank of this process.
  Status commit();
  /// Makes `cause` the failure of all ranks unless one has failed before. Returns the first cause.
  Status fail(const Status &cause);
};

/// Fails with BadInput, naming both shapes, if a program is for other hosts than the job's.
Status checkHosts(const Cluster &cluster, const Plan &plan);

/// Facts about the machine and about the libraries that a backend opens. The backend chooses the
/// names; values are plain text.
using BackendFacts = std::map<std::string, std::string>;

struct Backend {
  std::string name;        ///< the value of --backend
  std::string description; ///< one line
  /// False if the results are meaningless (null).
  bool computes = true;
  /// True if its devices record and replay graphs.
  bool hasGraphs = false;
  /// True if its ranks keep their arenas in host memory. If it also computes, each stream has a
  /// host thread.
  bool isOnHost = false;
  /// Number of hardware queues of a rank; 0 if every stream has its own. If there are more streams
  /// than queues, the mapping of streams to queues is unspecified.
  uint32_t ownQueues = 0;
  /// The transport of Plans unless another one is requested.
  Transport transport = Transport::PeerMemory;
  /// Opens the library that sends messages and returns its name, version and file, or an error if
  /// there is none. Null if ranks send no messages.
  std::function<Result<std::string>()> messages = {};
  /// Returns the known facts for `braid doctor`. Opens the libraries that the backend would open,
  /// and uses no device. May block as long as a driver does. Null if there are none.
  std::function<BackendFacts()> facts = {};
  /// Creates all ranks in this process. Null if not supported.
  std::function<Result<std::unique_ptr<Cluster>>(const ClusterOptions &)> create = {};
  /// Creates one rank in this process; the others are in other processes. Null if not supported.
  std::function<Result<std::unique_ptr<Cluster>>(const ClusterOptions &, std::unique_ptr<Client>)>
      join = {};
};

/// Filled by explicit calls (registerCpuBackend, ...), never by static constructors.
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
