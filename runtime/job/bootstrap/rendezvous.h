//===- runtime/job/bootstrap/rendezvous.h - the host to which all ranks of a job connect ------===//
//
// The rendezvous is a thread in the launcher or in rank 0 that has one connection to each rank. It
// sends the job memory to each rank that joins, forwards descriptors, and immediately detects a
// connection that ends before its rank has left. The rank is then considered dead, and the thread
// records an abort in the job memory, where all ranks see it. Runs and aborts do not depend on this
// thread. client.h lists the messages.
//
// A peer must run under the same user id as this process and send its hello within a second; other
// peers are dropped without affecting the job. If a hello contradicts an earlier one, because its
// rank is taken or its number of ranks differs, the job is aborted with BadInput and all ranks
// report the reason. The host listens until the end of the first all-gather, in which the ranks
// agree on the program; processes that arrive later find no listener. The host of a failed job
// stops listening when the first rank of the next job with the same name connects.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/client.h"

#include <functional>

namespace braid {

/// Returns 128 random bits as hexadecimal digits.
Result<std::string> randomName();

/// A listening socket for a job's ranks, and its name.
struct RendezvousPlace {
  std::string name;
  FileDescriptor listener;
};
/// Listens under the job's name (see nameOfJob()), which may be a random name that is passed to the
/// ranks. If another host already uses the name, sends it `hello` and returns BadInput with its
/// answer, because a job must not have two hosts. Returns TimedOut if the name is not free by the
/// deadline.
Result<RendezvousPlace> listenForJob(const ClientHello &hello, Deadline deadline);

struct RendezvousOptions {
  std::string job; ///< name of the job, for messages
  /// The time limit for all ranks to join. When it has passed, the job is aborted with TimedOut,
  /// and the message names the missing ranks.
  std::chrono::milliseconds joinTimeout{60000};
  /// Describes why a rank's connection ended, for example "was killed by signal 9". May block
  /// briefly. If not set, messages report that the rank closed its connection.
  std::function<std::string(int64_t rank)> explainDeath = {};
  /// Describes a dead rank's last activity, based on the job memory. Optional.
  std::function<std::string(int64_t rank)> describe = {};
};

class Rendezvous {
public:
  /// Starts the thread. `memory` must outlive this object. If a rank's process is known before it
  /// joins, as for this process's own rank, the caller must set RankSlot::pid; a hello for this
  /// rank from another process is then contradictory.
  static Result<std::unique_ptr<Rendezvous>> start(RendezvousPlace place, JobMemory &memory,
                                                   RendezvousOptions options);
  /// Stops the thread and closes all connections to clients.
  virtual ~Rendezvous() = default;

  virtual const std::string &name() const = 0;
  /// Blocks until every rank on this host that has joined the job has left or died. Returns
  /// TimedOut at the deadline.
  virtual Status waitForAllToLeave(Deadline deadline) const = 0;
  /// Returns true if a contradictory hello has caused the job to fail.
  virtual bool isContradicted() const = 0;
};

} // namespace braid
