//===- runtime/job/network/host_zero.h - the host that the others are connected to ------------===//
//
// Every other host keeps one connection to host 0, whose job memory holds the outcome that counts:
//
//   all-gather   each host brings the parts of its ranks once all of them have come. When all hosts
//                have, host 0 commits the step, if it is one, and then tells all. So a step counts
//                everywhere or, if an abort was first, nowhere.
//   abort        a host proposes, the first proposal that finds the outcome open is the cause, and
//                all hosts are told.
//   death        a connection that ends before its host has disconnected aborts the job; so does a
//                host that says nothing for as long as the job may stand still.
//   places       each host tells where its ranks are, some times a second, and host 0 passes that
//                on. These messages are also the sign of life.
//
// A host that is cut off decides for itself: it aborts, too. One case cannot be excluded by any
// protocol: where the network is cut between host 0's commit and the arrival of its message, the
// hosts beyond the cut report a failure of a run that the others count.
//
// The acceptor, see acceptor.h, is open until the first all-gather, by which all hosts have come.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/acceptor.h"
#include "runtime/job/network/host_link.h"
#include "runtime/job/network/host_messages.h"

#include <functional>

namespace braid {

struct HostOptions {
  std::string secret;
  std::string context; ///< that hosts have to agree on: the job
  /// All hosts have to come within this.
  std::chrono::milliseconds joinTimeout{60000};
  /// A host that says nothing for so long is lost.
  std::chrono::milliseconds silence{60000};
  /// Is told, now and then, whom the meeting waits for. May be empty.
  std::function<void(const std::string &)> say = {};
};

class HostZero final : public OtherHosts {
public:
  /// `memory`: of host 0, with the number of hosts; outlives this.
  HostZero(TcpListener listener, JobMemory &memory, HostOptions options);
  ~HostZero() override;
  void addDescriptors(std::vector<pollfd> &events) override;
  void serve(llvm::ArrayRef<pollfd> events) override;
  void bring(GatheredParts parts) override;
  std::optional<GatheredParts> takeGathered() override;

private:
  using Clock = std::chrono::steady_clock;
  /// Has proved that it is of the job, and has not said who it is.
  struct Newcomer {
    HostLink link;
    int64_t host;
    Deadline deadline;
  };
  enum class State : uint8_t { Absent, There, Left, Lost };
  struct Host {
    State state = State::Absent;
    std::optional<HostLink> link = {};
  };

  void serveNewcomers(llvm::ArrayRef<pollfd> events);
  bool serveNewcomer(Newcomer &newcomer);
  Status whyRefused(const Newcomer &newcomer, const Frame &frame) const;
  void refuse(Newcomer &newcomer, const Status &why);
  void welcome(Newcomer &newcomer);
  void serveHost(int64_t host);
  Status handle(int64_t host, const Frame &frame);
  Status handleGather(int64_t host, const Frame &frame);
  void finishGather();
  void letGo(int64_t host);
  void lose(int64_t host, const Status &why);
  void lookAtClocks();
  void lookForMissing(Clock::time_point now);
  void sendSlots(Clock::time_point now);
  void tellAbort();
  std::string ranksOf(int64_t host) const;

  Acceptor acceptor_;
  JobMemory &memory_;
  const HostOptions options_;
  const int64_t perHost_;
  std::vector<Newcomer> newcomers_;
  std::vector<Host> hosts_; ///< by number; the first one is this
  /// The all-gather that is going on, by host.
  std::vector<std::optional<GatheredParts>> parts_;
  uint32_t sequence_ = 1;
  std::optional<GatheredParts> gathered_;
  std::vector<uint64_t> roundTrips_; ///< as hosts have said, in ns
  bool isAbortTold_ = false;
  const Clock::time_point start_;
  Clock::time_point nextSlots_, nextSaying_;
};

/// How often hosts of a job of so many ranks say where these are.
std::chrono::milliseconds slotsPeriod(int64_t ranks);

/// "host 1 (ranks 4 to 7)".
std::string nameHost(int64_t host, int64_t ranksPerHost);

} // namespace braid
