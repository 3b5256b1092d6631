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
  /// No progress for this long is TimedOut.
  std::chrono::milliseconds timeout{60000};
  /// If set, commands run one at a time in an order drawn from this seed, out of all orders that
  /// the streams allow: the same seed gives the same order. Backends that cannot do it refuse.
  std::optional<uint64_t> scheduleSeed = {};
  /// If not 0, stream k shares hardware queue k mod queues, each queue issuing in order.
  uint32_t queues = 0;
  /// A GEMM's result depends on its operands, and on N, K and types: row i has the same bits
  /// whatever M is, and wherever operands lie.
  bool reproducible = false;
  /// CUDA's number of the GPU of a rank that joins; -1: the rank's number on this host, or the only
  /// GPU there is.
  int device = -1;
};

/// The ranks hosted by this process, connected to their peers. Objects that a Cluster returns
/// remain valid for its lifetime.
class Cluster {
public:
  virtual ~Cluster() = default;
  virtual int64_t ranks() const = 0;
  /// The first rank in this process, of hosted() consecutive ones. Only these have a Device and a
  /// ControlPlane here.
  virtual int64_t firstHosted() const { return 0; }
  virtual int64_t hosted() const { return ranks(); }
  /// The number of consecutive ranks on each host of the job. Nothing if ranks are threads of one
  /// process: then each program says on which hosts they are.
  virtual std::optional<int64_t> ranksPerHost() const { return std::nullopt; }
  /// The Plans of all ranks, so that messages can name what other ranks do: of one program more, in
  /// place of what had its numbers (Plan::firstCommand). None: all are forgotten. They outlive the
  /// cluster's last call, or that.
  virtual void setPlans(llvm::ArrayRef<Plan>) {}
  /// Forgets the Plans of one program that setPlans() was given, unless others have replaced them.
  virtual void forgetPlans(llvm::ArrayRef<Plan>) {}
  /// A command is still running though synchronize() has returned, after an abort; it may not end
  /// before the process does. The caller must not free what it gave to the device, and is to end
  /// the process without running destructors: std::_Exit().
  virtual bool isStuck() const { return false; }
  virtual Device &device(int64_t rank) = 0;
  virtual ControlPlane &control(int64_t rank) = 0;

  bool hosts(int64_t rank) const {
    return rank >= firstHosted() && rank < firstHosted() + hosted();
  }
  /// Calls `fn(rank)` on one host thread per rank that lives here and waits for all. A rank that
  /// fails makes the blocked calls of all ranks return; the result is the failure that came first.
  Status onEveryRank(const std::function<Status(int64_t rank)> &fn);
  /// Blocks until every rank that lives here is done. All ranks return the same first cause of a
  /// failure.
  Status synchronize();
  /// As ControlPlane::commit(), for every rank that lives here.
  Status commit();
  /// Makes `cause` the failure of all ranks, unless one failed before, and returns the one that
  /// came first.
  Status fail(const Status &cause);
};

/// BadInput, with both shapes, if a program is for other hosts than the job's.
Status checkHosts(const Cluster &cluster, const Plan &plan);

/// Facts about the machine and about the libraries that a backend opens. The backend chooses the
/// names; values are plain text.
using BackendFacts = std::map<std::string, std::string>;

struct Backend {
  std::string name;        ///< the value of --backend
  std::string description; ///< one line
  /// False for a backend whose results mean nothing (null).
  bool computes = true;
  /// Its devices record and replay graphs.
  bool hasGraphs = false;
  /// Its ranks keep their arenas in memory of the host; if it computes, then with a host thread for
  /// each stream.
  bool isOnHost = false;
  /// Number of hardware queues of a rank; 0 if every stream has its own. If there are more streams
  /// than queues, the mapping of streams to queues is unspecified.
  uint32_t ownQueues = 0;
  /// The transport that Plans are made for unless another is asked for.
  Transport transport = Transport::PeerMemory;
  /// Names the library that sends its messages, with version and file, or says why there is none.
  /// Opens it. Null: its ranks send no messages.
  std::function<Result<std::string>()> messages = {};
  /// For `braid doctor`. Opens what the backend would open, and uses no device. What is not known
  /// is not there. May block as long as a driver does. Null: there is nothing to know.
  std::function<BackendFacts()> facts = {};
  /// All ranks, in this process. Null if that is not possible.
  std::function<Result<std::unique_ptr<Cluster>>(const ClusterOptions &)> create = {};
  /// One rank in this process, the others in processes of their own. Null if that is not possible.
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
