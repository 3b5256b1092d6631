//===- runtime/job/bootstrap/client.h - a rank's connection to its job ------------------------===//
//
// Only the rank's host thread calls these functions, except isHostGone(). They block for other
// ranks until the job is aborted. No function has a timeout for that: the watchdog aborts a job
// that has stalled or whose host is gone.
//
// The first letter of a message is its type:
//
//   RANK RANKS           hello from a rank
//   W with a descriptor  welcome from the host, with the job memory
//   R reason             refusal: the hello contradicts another rank; the host then disconnects
//   O name               offer: the rank sends a descriptor to the host under this name
//   G RANK name          request for the descriptor that RANK has offered under this name
//   D                    the host's answer to O and G, with the requested descriptor, if any
//
// Everything else that ranks exchange is in the job memory. When a connection ends, the slot of the
// rank says whether the rank has left properly.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/socket.h"

#include <memory>

namespace braid {

/// The message by which a rank joins its job.
struct ClientHello {
  std::string job = {}; ///< selects the endpoint; not part of the message
  int64_t rank = 0, ranks = 1;
  std::string encode() const;
  /// Returns BadInput unless encode() produces `text` for some valid rank. Leaves `job` empty.
  static Result<ClientHello> decode(llvm::StringRef text);
};

class Client {
public:
  /// Connects to the host at `name`, sends the hello, and maps the job memory. Returns BadInput
  /// with the host's reason if it refuses, PeerFailed if there is no host or it closes the
  /// connection without an answer, and TimedOut at the deadline.
  static Result<std::unique_ptr<Client>> join(const std::string &name, const ClientHello &hello,
                                              Deadline deadline);
  /// Joins the job at the name on which listenForJob() listens for hello.job. Waits until a host
  /// listens.
  static Result<std::unique_ptr<Client>> find(const ClientHello &hello, Deadline deadline);
  /// Disconnects unless that has been done.
  ~Client();
  Client(const Client &) = delete;

  int64_t rank() const { return hello_.rank; }
  int64_t ranks() const { return hello_.ranks; }
  JobMemory &memory() { return memory_; }

  /// Makes `cause` the failure of all ranks unless the job has failed before, and returns the first
  /// failure. A rank that cannot continue calls this before it disconnects; otherwise the others
  /// only see it leave.
  Status fail(const Status &cause) { return memory_.fail({cause, rank()}); }

  /// Returns the parts of all ranks, in rank order. Collective: every rank must call it equally
  /// often. Blocks until all ranks have called it, or returns the cause if the job is aborted.
  Result<std::vector<std::string>> allGather(const std::string &mine);
  /// Joins the next all-gather with `part`, after having completed `step` (0 if none), and blocks
  /// until all ranks have joined. After a failure, the job memory says whether the step is
  /// committed.
  Status meet(const std::string &part, uint32_t step);
  /// Sends a duplicate of `descriptor` to the host under a name within this rank's namespace, and
  /// blocks until the host has received it.
  Status offer(const std::string &name, int descriptor);
  /// Returns the descriptor that `rank` has offered under `name`, or BadInput if there is none.
  /// Blocks for the host's answer.
  Result<FileDescriptor> want(int64_t rank, const std::string &name);
  /// Leaves the job without a failure. No other function may be called afterwards.
  void disconnect();

  /// Returns true if the host's process or its end of the connection is gone. Never blocks.
  /// Thread-safe.
  bool isHostGone() const;
  /// Returns the cause of a failure for the case that isHostGone(). It names the host.
  JobCause hostIsGone() const;

  /// For tests that cut the connection.
  Connection &connection() { return connection_; }

private:
  Client(Connection connection, ClientHello hello, JobMemory memory);
  Result<Message> ask(const std::string &text, int descriptor);
  Status lost(const Status &status);
  void abortIfSomebodyHasLeft();

  Connection connection_;
  ClientHello hello_;
  JobMemory memory_;
  const FileDescriptor host_; ///< the host's process, see Connection::openPeer()
  uint32_t gathers_ = 0;
  bool saidDisconnect_ = false;
};

/// Returns the name on which the first rank of a job listens.
std::string nameOfJob(const std::string &job);

} // namespace braid
