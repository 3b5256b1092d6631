//===- runtime/job/bootstrap/client.h - a rank's connection to its job ------------------------===//
//
// Calls are made by one thread, the rank's host thread, but for isHostGone(). They wait for other
// ranks until the job is aborted: that a wait ends at all is the business of the watchdog, which
// aborts a job that stands still or whose host is gone.
//
// Messages, whose first letter says what they are:
//
//   RANK RANKS           the rank says hello
//   W with a descriptor  the host welcomes it, and hands over the job memory
//   R reason             the rank contradicts another one; the host closes the connection
//   O name               the rank leaves a descriptor with the host
//   G RANK name          the rank wants the descriptor that RANK has left under that name
//   D                    the host's answer to either, with the descriptor that is wanted, if any
//
// All else that ranks tell each other is in the job memory: a rank has left in good order if its
// slot says so when its connection ends.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/socket.h"

#include <memory>

namespace braid {

/// A rank that wants to join its job.
struct ClientHello {
  std::string job = {}; ///< for the name of the endpoint only
  int64_t rank = 0, ranks = 1;
  std::string encode() const;
  /// BadInput for what encode() does not make of a rank of `ranks`. Has no job.
  static Result<ClientHello> decode(llvm::StringRef text);
};

class Client {
public:
  /// Connects to the host at `name`, says hello, and maps the job memory. BadInput with the host's
  /// reason if it refuses; PeerFailed if there is none, or it closes the connection without an
  /// answer; TimedOut at the deadline.
  static Result<std::unique_ptr<Client>> join(const std::string &name, const ClientHello &hello,
                                              Deadline deadline);
  /// Joins the job at one of the names that listenForJob() takes for hello.job, once a host
  /// listens there. A host that has failed, or is suspended, may be in the way for a second.
  static Result<std::unique_ptr<Client>> find(const ClientHello &hello, Deadline deadline);
  /// Disconnects, if that was not done.
  ~Client();
  Client(const Client &) = delete;

  int64_t rank() const { return hello_.rank; }
  int64_t ranks() const { return hello_.ranks; }
  JobMemory &memory() { return memory_; }

  /// Makes `cause` that of all ranks, unless one failed before, and returns the first one. A rank
  /// that cannot take part calls this before it disconnects, or the others only see it leave.
  Status fail(const Status &cause) { return memory_.fail({cause, rank()}); }

  /// Every rank's part, in rank order; each rank calls it equally often. Blocks until all have
  /// come, or the job is aborted (its cause).
  Result<std::vector<std::string>> allGather(const std::string &mine);
  /// As allGather() of nothing, by which all ranks have done `step`. It is committed when this
  /// returns without a failure; with one, the job memory says whether it was.
  Status meetAtCommit(uint32_t step);
  /// Leaves a duplicate of `descriptor` with the host, under a name that is this rank's own, and
  /// waits until it has it.
  Status offer(const std::string &name, int descriptor);
  /// The descriptor that `rank` has offered under `name`. Blocks for the answer; BadInput if there
  /// is none.
  Result<FileDescriptor> want(int64_t rank, const std::string &name);
  /// Leaves the job: the end of the connection is no failure then. Nothing may be called after.
  void disconnect();

  /// The host's process, or its end of the connection, is gone. Never blocks. Any thread.
  bool isHostGone() const;
  /// The cause of a failure then: it names the host.
  JobCause hostIsGone() const;

  /// For tests, which cut it.
  Connection &connection() { return connection_; }

private:
  Client(Connection connection, ClientHello hello, JobMemory memory);
  Result<Message> ask(const std::string &text, int descriptor);
  Status lost(const Status &status);
  Status meet(const std::string &part, uint32_t step);
  void abortIfSomebodyHasLeft();

  Connection connection_;
  ClientHello hello_;
  JobMemory memory_;
  const FileDescriptor host_; ///< its process, see Connection::openPeer()
  uint32_t gathers_ = 0;
  bool saidDisconnect_ = false;
};

/// The names at which the first rank of a job may listen, in this order: the first of them may be
/// taken by a job that has failed, or is suspended.
inline constexpr int kNamesOfJob = 8;
/// A host answers within this, unless it is suspended; then another one may listen elsewhere.
inline constexpr std::chrono::milliseconds kForGreeting{1000};
std::string nameOfJob(const std::string &job, int number);

} // namespace braid
