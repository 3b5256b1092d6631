//===- runtime/job/bootstrap/rendezvous.h - the host that all ranks of a job are connected to ===//
//
// One thread, in the launcher or in rank 0, to which every rank keeps one connection. It sends the
// job memory to each rank that joins, forwards descriptors, and detects immediately when a
// connection ends before its rank has left: that rank is dead, and the thread aborts the job in the
// job memory, which is visible to all ranks. Runs and aborts do not depend on this thread. client.h
// lists the messages.
//
// A peer must have the same user id and send its hello within a second. All other peers are dropped
// without affecting the job. If a hello contradicts an earlier one, because the rank is taken or
// the number of ranks differs, the job is aborted with BadInput and all ranks report the reason.
// The host listens until the end of the first all-gather, in which the ranks agree on the program;
// later processes find no listener. The host of a failed job stops listening when the first rank of
// the next job of the same name connects.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/client.h"

#include <atomic>
#include <functional>
#include <map>
#include <thread>

namespace braid {

/// Returns 128 random bits as hexadecimal digits.
Result<std::string> randomName();

/// A listening socket for the ranks of a job, and its name.
struct RendezvousPlace {
  std::string name;
  FileDescriptor listener;
};
/// Listens on a random name, which the ranks must be told.
Result<RendezvousPlace> listenAnywhere();
/// Listens on the job's name, see nameOfJob(). Called by the rank that hosts the job. If another
/// host has the name, sends `hello` to it and returns BadInput with its answer, because the job
/// would have two hosts. The host of a failed job gives the name up; otherwise returns TimedOut.
Result<RendezvousPlace> listenForJob(const ClientHello &hello, Deadline deadline);

struct RendezvousOptions {
  std::string job; ///< name of the job, for messages
  /// The rank of this process, or -1 if this process is not a rank. A hello from another process
  /// with this rank is a contradiction.
  int64_t ownRank = -1;
  /// The time limit for all ranks to join. The job is then aborted with TimedOut, which names the
  /// missing ranks.
  std::chrono::milliseconds joinTimeout{60000};
  /// If `killsStragglers` is set, the host kills ranks that have not left within this time after an
  /// abort or after a late rank has joined. It can kill only processes of its pid namespace.
  std::chrono::milliseconds grace{1000};
  bool killsStragglers = true;
  /// Returns true for a rank whose process is stopped, for example by SIGSTOP. After an abort, the
  /// host kills such a rank immediately, because it cannot use the grace period. Default: no rank
  /// is stopped.
  std::function<bool(int64_t rank)> isStopped = {};
  /// Describes why the connection of a rank ended, for example "was killed by signal 9". May block
  /// briefly. The default says that the rank closed its connection.
  std::function<std::string(int64_t rank)> explainDeath = {};
  /// Describes the last activity of a dead rank, from the job memory. The default is an empty text.
  std::function<std::string(int64_t rank)> describe = {};
};

class Rendezvous {
public:
  /// Starts the thread. `memory` must outlive this object.
  static Result<std::unique_ptr<Rendezvous>> start(RendezvousPlace place, JobMemory &memory,
                                                   RendezvousOptions options);
  /// Stops the thread and closes the connections of all clients.
  ~Rendezvous();
  Rendezvous(const Rendezvous &) = delete;

  const std::string &name() const { return name_; }
  /// Blocks until every rank of this host that joined has left, died or been killed. Returns
  /// TimedOut at the deadline.
  Status waitForAllToLeave(Deadline deadline) const;
  /// Returns true if the job has failed because of a contradictory hello.
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

  // Called by the thread only.
  void run();
  void lookAtClocks();
  std::string nameStopped(std::vector<int64_t> ranks) const;
  void killStragglers(bool isGraceOver);

  // Called by the thread for new connections.
  void acceptPeer();
  void greet(Connection peer, pid_t pid);
  Status contradiction(const ClientHello &hello, pid_t pid) const;
  void contradict(Connection &peer, const ClientHello &hello, const Status &cause);
  void welcome(Connection peer, pid_t pid, int64_t rank);

  // Called by the thread for ranks that have joined.
  void serveRank(int64_t rank, bool isDead);
  Status handle(Member &sender, Message message);
  int findOffer(llvm::StringRef request) const;
  void loseRank(int64_t rank, const Status &why);
  void setState(int64_t rank, RankState state);

  const std::string name_;
  FileDescriptor listener_; ///< closed once all ranks have joined
  JobMemory &memory_;
  const RendezvousOptions options_;
  const FileDescriptor wake_; ///< an eventfd
  std::atomic<bool> isStopped_{false}, isContradicted_{false};

  const Ranks ranks_;                 ///< the ranks of this host
  std::map<int64_t, Member> members_; ///< the connected ranks
  const Deadline joinDeadline_;
  std::optional<Deadline> killTime_;
  size_t absentBefore_ = 0; ///< absent ranks at the last check since the job failed
  std::thread thread_;
};

} // namespace braid
