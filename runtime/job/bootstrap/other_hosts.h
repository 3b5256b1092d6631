//===- runtime/job/bootstrap/other_hosts.h - joins the hosts of a job -------------------------===//
//
// Each host of a job has a rendezvous and a job memory. One thread on each host tells the others
// what its memory says, through the store that all hosts share. Its keys:
//
//   shape      how many hosts and ranks there are, as the first host says
//   host<K>    sign of life of host K, several times a second: whether it has left, and what its
//              ranks do. All other hosts read it.
//   parts<K>.0 what the ranks of host K have said in the last all-gather of an even number, and in
//   parts<K>.1 that of an odd number: all hosts have read number N - 2 when one of them puts N
//   round<N>   the outcome of all-gather N, decided by putIfAbsent(): host 0 puts the time by its
//              clock once it has read all parts; a host that fails puts the cause. So a step counts
//              on all hosts or, if a failure was first, on none, and there is one first cause.
//
// A host whose sign does not change for the time limit is lost. A host that cannot reach the store
// for that long decides for itself, and fails, too. One case cannot be excluded by any protocol: if
// the network is cut after a step was decided, hosts beyond the cut report a failure of a run that
// the others count.
//
// A store may serve several jobs of one name, one after another: the n-th of them that a host takes
// part in is number n on all hosts.
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
  std::string job; ///< its name
  /// All hosts have to come within this.
  std::chrono::milliseconds joinTimeout{60000};
  /// A host that gives no sign for this long is lost.
  std::chrono::milliseconds silence{60000};
  /// Host 0 says, now and then, which hosts it waits for. May be empty.
  std::function<void(const std::string &)> say = {};
};

class OtherHosts {
public:
  /// Starts the thread. `memory` is this host's, knows the number of hosts, and outlives this.
  static Result<std::unique_ptr<OtherHosts>> start(std::unique_ptr<Store> store, JobMemory &memory,
                                                   OtherHostsOptions options);
  /// Says that this host has left. Host 0 waits for the others to leave. Takes a second at most.
  ~OtherHosts();
  OtherHosts(const OtherHosts &) = delete;

private:
  using Clock = std::chrono::steady_clock;
  /// This host's knowledge of another one.
  struct Host {
    int64_t number;
    bool hasCome = false, hasLeft = false;
    uint64_t sign = 0;         ///< HostSign::number of the last one
    Clock::duration silent{0}; ///< since then
  };

  OtherHosts(std::unique_ptr<Store> store, JobMemory &memory, OtherHostsOptions options);
  std::string key(const char *what, int64_t number) const;
  bool isZero() const { return memory_.host() == 0; }
  std::string nameOf(const Host &host) const;

  // The thread.
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
  Status finishRound(uint64_t zeroNs);
  void synchronizeClocks(uint64_t zeroNs);
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

  // For the thread only.
  std::string id_, prefix_;  ///< the prefix of all keys; empty: this host has not introduced itself
  std::vector<Host> others_; ///< by number
  uint32_t round_ = 1;
  bool isFailed_ = false;     ///< the round has a cause
  bool areSent_ = false;      ///< the parts of this host's ranks
  uint64_t sentNs_ = 0;       ///< when
  Status reached_;            ///< the outcome of the last try to reach the store
  Clock::duration waited_{0}; ///< for hosts to come
  Clock::time_point lastLook_, nextSign_{}, nextSaying_;
  int64_t leastOffsetNs_ = INT64_MIN, mostOffsetNs_ = INT64_MAX; ///< bounds of host 0's clock

  std::thread thread_;
};

/// "host 1 (ranks 4 to 7)".
std::string nameHost(int64_t host, int64_t ranksPerHost);

} // namespace braid
