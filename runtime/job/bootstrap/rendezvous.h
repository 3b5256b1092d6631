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

#include <functional>

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
  virtual ~Rendezvous() = default;

  virtual const std::string &name() const = 0;
  /// Blocks until every rank of this host that joined has left or died. Returns TimedOut at the
  /// deadline.
  virtual Status waitForAllToLeave(Deadline deadline) const = 0;
  /// Returns true if the job has failed because of a contradictory hello.
  virtual bool isContradicted() const = 0;
};

} // namespace braid
