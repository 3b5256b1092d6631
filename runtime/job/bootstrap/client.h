//===- runtime/job/bootstrap/client.h - a rank's connection to its job ------------------------===//
//
// Only the rank's host thread calls these functions, except where stated. They block until the host
// (the process that hosts the job) responds or the job is aborted. They need no timeout, because
// the watchdog aborts a job that has stalled or whose host is gone.
//
// The first letter of a message is its type:
//
//   braid rank RANK RANKS  hello from a rank
//   W with a descriptor    welcome from the host, with the job memory
//   R reason               refusal: the hello contradicts an earlier one; the host disconnects
//   O name                 offer: the rank sends a descriptor to the host under this name
//   G RANK name            request for the descriptor that RANK has offered under this name
//   D                      the host's reply to O or G, with the requested descriptor, if any
//
// Ranks exchange everything else through the job memory. When a connection ends, the rank's slot
// shows whether the rank left cleanly.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/socket.h"

#include <memory>

namespace braid {

/// The message that a rank sends to join its job.
struct ClientHello {
  std::string job = {}; ///< selects the endpoint; not part of the message
  int64_t rank = 0, ranks = 1;
  std::string encode() const;
  /// Decodes a hello, leaving `job` empty. Returns BadInput unless `text` encodes a valid rank.
  static Result<ClientHello> decode(llvm::StringRef text);
};

class Client {
public:
  /// Connects to the host at `name`, sends the hello, and maps the job memory. Returns BadInput
  /// with the host's reason if the host refuses, PeerFailed if there is no host or the host closes
  /// the connection without answering, and TimedOut at the deadline.
  static Result<std::unique_ptr<Client>> join(const std::string &name, const ClientHello &hello,
                                              Deadline deadline);
  /// Waits until a host listens under the name used by listenForJob() for hello.job, then joins.
  static Result<std::unique_ptr<Client>> find(const ClientHello &hello, Deadline deadline);
  /// Disconnects, unless disconnect() has been called.
  ~Client();
  Client(const Client &) = delete;

  int64_t rank() const { return hello_.rank; }
  int64_t ranks() const { return hello_.ranks; }
  JobMemory &memory() { return *memory_; }
  /// Returns memory(), which remains valid after the client is destroyed.
  std::shared_ptr<JobMemory> sharedMemory() const { return memory_; }

  /// Fails the job with `cause` on all ranks, unless it has already failed. Returns the first
  /// failure. A rank that cannot continue calls this before it disconnects; otherwise the other
  /// ranks would only see that the rank has left.
  Status fail(const Status &cause) { return memory_->fail({cause, rank()}); }

  /// Sends a duplicate of `descriptor` to the host under `name`, which is scoped to this rank, and
  /// blocks until the host has received it.
  Status offer(const std::string &name, int descriptor);
  /// Returns the descriptor that `rank` has offered under `name`, or BadInput if there is none.
  /// Blocks until the host answers.
  Result<FileDescriptor> want(int64_t rank, const std::string &name);
  /// Leaves the job cleanly. No other function may be called afterwards.
  void disconnect();

  /// Returns true if the host has exited or closed the connection. Never blocks. Thread-safe.
  bool isHostGone() const;
  /// Aborts the job if isHostGone(), because only the host process detects dead ranks and accesses
  /// the store. The message says whether that process was the launcher or a rank. From then on,
  /// this host decides the outcome on its own. Thread-safe.
  void abortIfHostIsGone();

  /// For tests that break the connection.
  Connection &connection() { return connection_; }

private:
  Client(Connection connection, ClientHello hello, JobMemory memory);
  Result<Message> ask(const std::string &text, int descriptor);
  Status lost(const Status &status);

  Connection connection_;
  ClientHello hello_;
  const std::shared_ptr<JobMemory> memory_;
  const FileDescriptor host_; ///< pidfd of the host's process (see Connection::openPeer())
  bool saidDisconnect_ = false;
};

/// Returns the name of the socket on which the first rank of a job listens.
std::string nameOfJob(const std::string &job);

} // namespace braid
