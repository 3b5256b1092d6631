//===- runtime/job/bootstrap/rendezvous.h - the host that all ranks of a job are connected to ===//
//
// One thread, in the launcher or in rank 0. Every rank keeps one connection to it. It hands the job
// memory to each rank that joins, passes descriptors on, and notices at once when a connection ends
// before its rank has left: that rank is dead, and the thread aborts the job in the job memory,
// which all ranks see. It takes no part in running, and the ranks can abort without it. client.h
// lists the messages.
//
// A peer must have the same user id and say hello within a second. Any other peer is dropped, and
// the job goes on. If a hello contradicts what another process has said, because the rank is taken
// or the number of ranks differs, the job is aborted with BadInput and all ranks see the reason.
// The host listens until the first all-gather is over, in which the ranks agree on what to run. A
// process that comes later finds no listener. The host of a job that has failed stops listening
// when the first rank of the next job of that name connects.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/client.h"

#include <atomic>
#include <functional>
#include <map>
#include <thread>

namespace braid {

/// 128 bits, in hexadecimal digits.
Result<std::string> randomName();

/// A socket at which the ranks of a job arrive.
struct RendezvousPlace {
  std::string name;
  FileDescriptor listener;
};
/// At a new name, for ranks that are told it.
Result<RendezvousPlace> listenAnywhere();
/// At the first of the job's names that is free, see nameOfJob(). For the rank that hosts the job:
/// `hello` is what it says to another host that has taken a name. BadInput with what that answers,
/// since there are two of them then; Unsupported if no name is free.
Result<RendezvousPlace> listenForJob(const ClientHello &hello, Deadline deadline);

struct RendezvousOptions {
  std::string job; ///< its name, for messages
  /// The rank that this process is itself, or -1: another process that says so contradicts it.
  int64_t ownRank = -1;
  /// All ranks have to come within this; then the job is aborted with TimedOut, which names those
  /// that did not.
  std::chrono::milliseconds joinTimeout{60000};
  /// This long after an abort, or after a late rank has joined, the host kills the ranks that have
  /// not left, if `killsStragglers` is set. It can kill only other processes of its pid namespace.
  std::chrono::milliseconds grace{1000};
  bool killsStragglers = true;
  /// True for a rank whose process is stopped, as by SIGSTOP. A grace period would be lost on it,
  /// so the host kills it at once after an abort. Default: no rank is stopped.
  std::function<bool(int64_t rank)> isStopped = {};
  /// Says what became of a rank whose connection ended ("was killed by signal 9"); the default says
  /// that it closed its connection. May block for a moment.
  std::function<std::string(int64_t rank)> explainDeath = {};
  /// Says what a rank was doing when it died, from the job memory; default: nothing.
  std::function<std::string(int64_t rank)> describe = {};
};

class Rendezvous {
public:
  /// Starts the thread. `memory` outlives this.
  static Result<std::unique_ptr<Rendezvous>> start(RendezvousPlace place, JobMemory &memory,
                                                   RendezvousOptions options);
  /// Ends the thread; clients that are still connected see the connection end.
  ~Rendezvous();
  Rendezvous(const Rendezvous &) = delete;

  const std::string &name() const { return name_; }
  /// Blocks until every rank of this host that joined has left, died or been killed; TimedOut at
  /// the deadline.
  Status waitForAllToLeave(Deadline deadline) const;
  /// A process has contradicted a rank, and the job has failed for that.
  bool isContradicted() const { return isContradicted_; }

private:
  /// A rank that has joined.
  struct Member {
    Connection connection;
    FileDescriptor process; ///< see Connection::openPeer()
    bool isKilled = false;
    std::map<std::string, FileDescriptor> offers = {};
  };

  Rendezvous(RendezvousPlace place, JobMemory &memory, RendezvousOptions options,
             FileDescriptor wake);
  std::vector<int64_t> ranksIn(RankState state) const;
  RankState stateOf(int64_t rank) const {
    return memory_.slot(rank).state.load(std::memory_order_seq_cst);
  }

  // The thread.
  void run();
  void lookAtClocks();
  std::string nameStopped(std::vector<int64_t> ranks) const;
  void killStragglers(bool isGraceOver);

  // The thread, about new connections.
  void acceptPeer();
  void greet(Connection peer, pid_t pid);
  Status contradiction(const ClientHello &hello, pid_t pid) const;
  void contradict(Connection &peer, const ClientHello &hello, const Status &cause);
  void welcome(Connection peer, pid_t pid, int64_t rank);

  // The thread, about ranks.
  void serveRank(int64_t rank, bool isDead);
  Status handle(Member &sender, Message message);
  int findOffer(llvm::StringRef request) const;
  bool willConnectAgain(int64_t rank) const;
  void loseRank(int64_t rank, const Status &why);
  void setState(int64_t rank, RankState state);

  const std::string name_;
  FileDescriptor listener_; ///< invalid once all ranks have met
  JobMemory &memory_;
  const RendezvousOptions options_;
  const FileDescriptor wake_; ///< an eventfd
  std::atomic<bool> isStopped_{false}, isContradicted_{false};

  const Ranks ranks_;                 ///< the ranks of this host
  std::map<int64_t, Member> members_; ///< the connected ones, by rank
  const Deadline joinDeadline_;
  std::optional<Deadline> killTime_;
  size_t absentBefore_ = 0; ///< at the last look since the job failed
  std::thread thread_;
};

} // namespace braid
