//===- runtime/job/bootstrap/client.h - a rank's connection to its job ------------------------===//
//
// Blocking calls are made by one thread at a time, the rank's host thread; watch() belongs to the
// watchdog. A call waits for its answer until the job is aborted or its host is gone; that it ends
// at all is the business of the watchdog, which aborts a job that stands still.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/socket.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace braid {

/// What a Hello says, in its body: see encode(). The version is that of the layout of the job
/// memory and of all messages.
struct ClientHello {
  std::string job; ///< of at most kMaxJobBytes
  int64_t rank = 0, ranks = 1;
  std::string encode() const;
  /// BadInput for another version, and for what encode() does not make of a rank of `ranks`.
  static Result<ClientHello> decode(llvm::StringRef body);
};
inline constexpr size_t kMaxJobBytes = 2048;
inline constexpr uint32_t kProtocolVersion = 1;

class Client {
public:
  /// Connects to the socket at `path`, says hello, and maps the job memory. BadInput with the
  /// host's reason if it refuses; TimedOut at the deadline.
  static Result<std::unique_ptr<Client>> join(const std::string &path, const ClientHello &hello,
                                              Deadline deadline);
  /// Disconnects, if that was not done. No thread may be in watch() any more.
  ~Client();
  Client(const Client &) = delete;

  int64_t rank() const { return hello_.rank; }
  int64_t ranks() const { return hello_.ranks; }
  JobMemory &memory() { return memory_; }

  /// Makes `cause` that of all ranks, unless one failed before, and returns the one that came
  /// first. For whoever cannot take part: when this disconnects, the others only hear that.
  Status fail(const Status &cause);

  /// Every rank's part, in rank order; each rank calls it equally often. Blocks until all have
  /// come, the job is aborted (its cause), or the host is gone (PeerFailed). BadInput for more than
  /// kMaxBody bytes.
  Result<std::vector<std::string>> allGather(const std::string &mine);
  /// As allGather() of nothing, by which all ranks have done `step`. It is committed when this
  /// returns without a failure; with one, the job memory says whether it was.
  Status meetAtCommit(uint32_t step);
  /// Leaves a duplicate of `descriptor` with the host, under a name that is this rank's own.
  /// Blocks only if the host does not read.
  Status offer(const std::string &name, int descriptor);
  /// What `rank` offered under `name`, of which it told this rank before. Blocks for the answer,
  /// which is BadInput if there is nothing under that name.
  Result<FileDescriptor> want(int64_t rank, const std::string &name);
  /// Tells the host that the end of the connection is no failure. Nothing else may be called after.
  void disconnect();

  /// For the watchdog: reads what has come, for at most `patience`, and hands it to whoever waits.
  /// Also looks at the job's mark then, so that an abort ends the blocking calls. False once the
  /// host is gone.
  bool watch(std::chrono::milliseconds patience);
  /// What it means that watch() has returned false: who hosted the job.
  JobCause hostIsGone() const;
  /// Makes a blocked watch() return. Any thread.
  void wakeWatch();

  /// For tests that send half a message.
  Connection &connection() { return connection_; }

private:
  Client(Connection connection, ClientHello hello, JobMemory memory);
  /// After a connection has failed: whether that is because the host's process has ended. Blocks
  /// for at most a second, and no longer than until something says why.
  bool waitForEndOfHost();
  Status send(const Frame &frame, int descriptor = -1);
  Status stateAfter(const Result<size_t> &sent);
  Status failure();
  void countArrival();
  Result<Received> waitFor(FrameKind kind, uint32_t sequence);
  Result<Received> meet(FrameKind kind, std::string body);
  void deliver(std::vector<Received> frames, const Status &status);

  Connection connection_;
  ClientHello hello_;
  JobMemory memory_;
  const FileDescriptor host_; ///< its process, see Connection::openPeer()
  FileDescriptor wake_;       ///< an eventfd

  // Of the host thread.
  uint32_t gathers_ = 0, wants_ = 0;
  bool isCutOff_ = false; ///< part of a message was sent, and the rest never will be
  bool saidDisconnect_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Received> answers_; ///< by sequence
  Status hostFailure_;                   ///< why nothing more comes from the host
};

} // namespace braid
