//===- runtime/job/bootstrap/other_hosts.h - connects the hosts of a job ----------------------===//
//
// Each host of a job has a rendezvous and a job memory. One thread on each host exchanges the
// contents of its memory with the other hosts, through a common store. The keys of the store:
//
//  shape      the number of hosts and ranks, written by the first host
//  host<K>    the heartbeat of host K, several times a second: whether it has left, and the state
//             of its ranks. Read by all other hosts.
//  parts<K>.0 the parts of host K's ranks in the last even-numbered all-gather, and in the last
//  parts<K>.1 odd-numbered one: when a host writes N, all hosts have read N - 2
//  round<N>   the outcome of all-gather N, decided by putIfAbsent(): host 0 writes "done" once it
//             has read all parts; a host that fails writes the cause. So a step is committed on
//             all hosts or, if a failure came first, on none. There is one first cause.
//
// A host whose heartbeat does not change within the time limit is lost. A host that cannot reach
// the store for that long decides for itself, and fails as well. No protocol can exclude one case:
// if the network fails after a step was decided, disconnected hosts report a failure for a run that
// the others have committed.
//
// A store may serve several jobs of the same name in sequence: the n-th job in which a host takes
// part has number n on all hosts.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/host_messages.h"
#include "runtime/job/bootstrap/store.h"

#include <functional>
#include <memory>
#include <thread>

namespace braid {

struct OtherHostsOptions {
  std::string job; ///< name of the job
  /// The time limit for all hosts to join.
  std::chrono::milliseconds joinTimeout{60000};
  /// A host without a heartbeat for this long is lost.
  std::chrono::milliseconds silence{60000};
  /// Called occasionally on host 0 with a message that names the missing hosts. May be empty.
  std::function<void(const std::string &)> say = {};
};

class OtherHosts {
public:
  /// Starts the thread. `memory` is this host's job memory and must outlive this object.
  static Result<std::unique_ptr<OtherHosts>> start(std::unique_ptr<Store> store, JobMemory &memory,
                                                   OtherHostsOptions options);
  /// Announces that this host has left. Host 0 also waits for the others to leave. Blocks for at
  /// most a second.
  ~OtherHosts();
  OtherHosts(const OtherHosts &) = delete;

private:
  using Clock = std::chrono::steady_clock;
  /// The last known state of another host.
  struct Host {
    int64_t number;
    bool hasCome = false, hasLeft = false;
    uint64_t sign = 0;           ///< HostSign::sentNs of its last heartbeat
    int64_t shiftNs = INT64_MAX; ///< see takeSign()
    Clock::duration silent{0};   ///< time since its last heartbeat
  };

  OtherHosts(std::unique_ptr<Store> store, JobMemory &memory, OtherHostsOptions options);
  std::string key(const char *what, int64_t number) const;
  bool isZero() const { return memory_.host() == 0; }
  std::string nameOf(const Host &host) const;

  // Called by the thread only.
  void run();
  void pause();
  Status communicate();
  Status introduce();
  Status giveSign(bool isLast);
  Status listen();
  void noteLeft(Host &host);
  bool hasCome(int64_t host) const;
  std::string keyOfParts(int64_t host) const;
  Status sendParts();
  Status readParts();
  Status lookAtRound();
  Result<std::optional<std::string>> decide();
  Status finishRound();
  void abortIfRoundCannotEnd();
  void lookAtClocks();
  void lookForMissing();
  void lose(const Host &host);
  void giveUp(const JobCause &cause);
  void leave();
  Status sayGoodbye();

  const std::unique_ptr<Store> store_;
  JobMemory &memory_;
  const OtherHostsOptions options_;
  std::atomic<bool> isEnding_{false};

  // Accessed by the thread only.
  std::string id_, prefix_;  ///< the prefix of all keys; empty before introduce()
  std::vector<Host> others_; ///< by number
  uint32_t round_ = 1;
  bool isFailed_ = false;     ///< the round has ended with a cause
  bool areSent_ = false;      ///< the parts of this host's ranks are in the store
  Status reached_;            ///< the result of the last access to the store
  Clock::duration waited_{0}; ///< time spent waiting for hosts to join
  Clock::time_point lastLook_, nextSign_{}, nextSaying_;

  std::thread thread_;
};

/// Formats a host, for example "host 1 (ranks 4 to 7)".
std::string nameHost(int64_t host, int64_t ranksPerHost);

} // namespace braid
