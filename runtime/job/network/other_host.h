//===- runtime/job/network/other_host.h - a host that is connected to host 0 ------------------===//
//
// See host_zero.h for what they say to each other.
//
// Times of ranks are told in the clock of host 0. The difference to this host's clock is measured
// by pings: what host 0 answers lies between the ping and the arrival of the answer, so its middle
// is off by half a round trip at most. The shortest round trip so far counts.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/network/acceptor.h"
#include "runtime/job/network/host_link.h"
#include "runtime/job/network/host_messages.h"

namespace braid {

struct OtherHostOptions {
  int64_t host = 1, hosts = 2, ranks = 2;
  std::string secret;
  std::string context; ///< as host 0 has it
  /// Host 0 is given up when it says nothing for so long.
  std::chrono::milliseconds silence{60000};
};

/// A connection to host 0, which has accepted this host.
struct JoinedHost {
  HostLink link;
  std::string address; ///< of this end
};
/// Connects, proves that this host knows the secret, and asks to be let in. Again and again, until
/// host 0 answers or the deadline: TimedOut then. The failure of the job, or BadInput, if host 0
/// refuses this host.
Result<JoinedHost> joinHostZero(const TcpAddress &at, const OtherHostOptions &options,
                                Deadline deadline);

class OtherHost final : public OtherHosts {
public:
  /// `memory`: of this host; outlives this.
  OtherHost(HostLink link, JobMemory &memory, OtherHostOptions options);
  ~OtherHost() override;
  void addDescriptors(std::vector<pollfd> &events) override;
  void serve(llvm::ArrayRef<pollfd> events) override;
  void bring(GatheredParts parts) override;
  std::optional<GatheredParts> takeGathered() override;

private:
  using Clock = std::chrono::steady_clock;
  void serveLink();
  Status handle(const Frame &frame);
  void handlePong(const HostPing &ping);
  void lookAtClocks();
  void sendSlots(Clock::time_point now);
  void propose();
  void endWith(const Status &cause);

  std::optional<HostLink> link_; ///< nothing: host 0 has left, or is lost
  JobMemory &memory_;
  const OtherHostOptions options_;
  const int64_t perHost_;
  std::optional<GatheredParts> gathered_;
  std::optional<uint32_t> awaited_; ///< the all-gather for which parts were brought, and nothing
                                    ///< has come back
  bool isProposed_ = false;         ///< host 0 has been told
  Clock::time_point nextSlots_ = {};
  std::optional<uint64_t> pingedNs_;   ///< of the ping that has no answer
  uint64_t shortestNs_ = ~uint64_t(0); ///< round trip
  uint64_t latestNs_ = 0;              ///< round trip
};

} // namespace braid
