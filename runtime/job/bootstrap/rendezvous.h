//===- runtime/job/bootstrap/rendezvous.h - the host that all ranks of a job are connected to ===//
//
// One thread, in the launcher or in rank 0, that every rank keeps one connection to. It brings
// together what all ranks say (all-gather), passes descriptors on, and notices at once when a
// connection ends before it has disconnected: that rank is dead, and the job is aborted in the job
// memory, which all ranks see. It takes no part in running, and the ranks do not need it to abort.
//
// Whoever connects has the same user id, and says Hello within two seconds with the right job and
// version; anybody else is dropped and the job goes on. A Hello of this job that contradicts what
// another process has said, a rank that is taken or another number of ranks, aborts the job with
// BadInput, so that all hear of it; so the place stays until the first all-gather, in which the
// ranks agree on what to run. Whoever comes later finds nothing, and disturbs nothing.
//
// Of a job on several hosts each has a rendezvous of its own, for its ranks. What the others have
// to hear of goes through OtherHosts.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/endpoint.h"
#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/other_hosts.h"

#include <functional>
#include <thread>

namespace braid {

struct RendezvousOptions {
  int64_t ranks = 1; ///< of the job; the job memory says which of them are on this host
  std::string job;   ///< what a Hello has to say
  /// The rank that this process is itself, or -1: another process that says so contradicts it.
  int64_t ownRank = -1;
  /// All ranks have to come within this; then the job is aborted with TimedOut, which names those
  /// that did not.
  std::chrono::milliseconds joinTimeout{60000};
  /// After an abort, and again after a late rank has come, ranks that have not left are killed
  /// after this long, if `killsStragglers`: those in other processes than this one that can be seen
  /// from it.
  std::chrono::milliseconds grace{1000};
  bool killsStragglers = true;
  /// Says that a rank does nothing at all, by SIGSTOP or the like: a grace period would be lost on
  /// it, so it is killed at once after an abort. Default: no rank does.
  std::function<bool(int64_t rank)> isStopped = {};
  /// Says what became of a rank whose connection ended ("was killed by signal 9"); the default says
  /// that it closed its connection. May block for a moment.
  std::function<std::string(int64_t rank)> explainDeath = {};
  /// Says what a rank was doing when it died, from the job memory; default: nothing.
  std::function<std::string(int64_t rank)> describe = {};
};

/// What it has seen.
struct RendezvousCounts {
  uint64_t joined = 0;       ///< ranks
  uint64_t dropped = 0;      ///< connections of unauthenticated peers, of any kind
  uint64_t contradicted = 0; ///< of these, those that contradicted a rank and were told so
  uint64_t killed = 0;       ///< stragglers
};

class Rendezvous {
public:
  /// Starts the thread. `memory` outlives this. `others` is null for a job on one host.
  static Result<std::unique_ptr<Rendezvous>> start(RendezvousEndpoint endpoint, JobMemory &memory,
                                                   RendezvousOptions options,
                                                   std::unique_ptr<OtherHosts> others = nullptr);
  /// Ends the thread; clients that are still connected see the connection end.
  ~Rendezvous();
  Rendezvous(const Rendezvous &) = delete;

  const std::string &path() const { return path_; }
  /// Blocks until every rank of this host that joined has disconnected, died or been killed;
  /// TimedOut at the deadline.
  Status waitForAllToLeave(Deadline deadline);
  RendezvousCounts counts() const;

private:
  class Server; // rendezvous.cpp
  Rendezvous() = default;
  std::string path_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

} // namespace braid
