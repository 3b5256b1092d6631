//===- backends/cpu/messages/socket_link.h - messages between processes -----------------------===//
//
// One connection to each peer, which whoever drives an exchange reads and writes as far as neither
// blocks, both directions in turn: ranks that all send first do not wait for each other. A rank
// reads only while it is in an exchange, and nothing but what it has said to be ready for comes
// with data, so what comes always has its place.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "backends/cpu/messages/carrier.h"
#include "backends/cpu/messages/incoming.h"
#include "backends/cpu/messages/link.h"
#include "backends/cpu/messages/outgoing.h"

#include <functional>
#include <mutex>

namespace braid {

class SocketLink final : public Link {
public:
  /// One for each rank, null for this one. Collective, blocks.
  using Connect = std::function<Result<std::vector<std::unique_ptr<Carrier>>>(ControlPlane &)>;
  SocketLink(int64_t rank, Connect connect) : rank_(rank), connect_(std::move(connect)) {}

  Status open(ControlPlane &control) override;
  bool isOpen() const override { return !lines_.empty(); }
  Result<Advance> advance(Exchange &exchange) override;
  /// Ranks that are processes have workers.
  bool canAdvance(const Exchange &) const override { return true; }
  void sleep(const Exchange &exchange, uint32_t bell, std::chrono::milliseconds slice) override;
  const std::atomic<uint32_t> &bell() const override { return bell_; }
  /// Peers have what was sent in buffers of their own.
  void withdraw(Exchange &) override {}

private:
  using Clock = std::chrono::steady_clock;
  /// To one peer.
  struct Line {
    std::unique_ptr<Carrier> carrier = {};
    Outgoing out;
    Incoming in;
    std::deque<Transfer *> sends; ///< for which the peer has not been ready yet
    bool hasEnded = false;        ///< nothing more comes
    bool isBroken = false;        ///< nothing more can be written
    std::optional<Clock::time_point> goneSince = {};
    std::string why = {}; ///< that is known

    bool isNeeded() const { return hasOutput() || in.isExpecting() || !sends.empty(); }
    bool reads() const { return !hasEnded && isNeeded(); }
    bool writes() const { return !isBroken && hasOutput(); }
    bool hasOutput() const { return !out.isEmpty() || (carrier && carrier->hasUnsent()); }
  };

  void start(Exchange &exchange);
  Result<bool> advance(int64_t peer, const Tag &tag);
  static bool write(Line &line);
  Result<bool> read(int64_t peer, const Tag &tag);
  Status meet(int64_t peer, const Tag &tag);
  static void end(Line &line, std::string why);
  Status checkPeer(int64_t peer, const Tag &tag) const;

  const int64_t rank_;
  const Connect connect_;
  std::atomic<uint32_t> bell_{0}; ///< nobody rings it: who waits sleeps on sockets
  /// Exchanges follow one another by relaxed stores, on any worker.
  mutable std::mutex mutex_;
  std::vector<Line> lines_; ///< by rank; none to itself
};

} // namespace braid
