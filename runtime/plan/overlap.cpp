//===- runtime/plan/overlap.cpp - finds the transfers that overlap with a GEMM ----------------===//

#include "runtime/plan/overlap.h"

#include <algorithm>
#include <map>
#include <utility>

namespace braid {
namespace {

/// A vector clock: for each stream, the number of its commands that are guaranteed to finish before
/// a given command starts.
using Clock = std::vector<uint32_t>;

/// A command and its position in its stream.
struct Placed {
  const Command *command;
  uint32_t position;
  Clock clock;
};

bool isBefore(const Placed &first, const Placed &second) {
  return second.clock[first.command->stream] > first.position;
}

/// Walks the Plan in issue order, updating vector clocks.
class Order {
public:
  explicit Order(const Plan &plan)
      : plan_(plan), now_(plan.streams.size(), Clock(plan.streams.size())), atEvent_(plan.events) {}

  /// Clocks are monotonic within a stream, so the GEMMs of each stream are already sorted by clock.
  void run() {
    gemms_.resize(plan_.streams.size());
    for (const Command &command : plan_.commands) {
      Clock &clock = now_[command.stream];
      if (command.kind == CommandKind::WaitEvent)
        join(clock, atEvent_[command.event]);
      if (command.kind == CommandKind::Await)
        awaitSignal(clock, plan_.endpoints[command.endpoint]);
      const Placed placed{&command, clock[command.stream]++, clock};
      if (command.kind == CommandKind::Record)
        atEvent_[command.event] = clock;
      if (command.kind == CommandKind::Signal) {
        const Endpoint &endpoint = plan_.endpoints[command.endpoint];
        signals_[{endpoint.channel, endpoint.direction}].push_back(clock);
      }
      if (command.kind == CommandKind::Matmul)
        gemms_[command.stream].push_back(placed);
      if (movesData(command))
        transfers_.push_back(placed);
    }
  }

  std::vector<PlanTransfer> transfers() const {
    std::vector<PlanTransfer> all;
    for (const Placed &placed : transfers_) {
      const PlanTransfer transfer = transferOf(placed);
      if (placed.command->kind != CommandKind::Group)
        all.push_back(transfer);
      else
        for (const PlanMessage &message : plan_.groups[placed.command->group]) {
          all.push_back(transfer);
          all.back().origin = message.origin;
        }
    }
    return all;
  }

private:
  static bool movesData(const Command &command) {
    const bool mayReachPeer =
        command.kind == CommandKind::Copy || command.kind == CommandKind::Matmul;
    return command.kind == CommandKind::Group || command.kind == CommandKind::Collective ||
           (mayReachPeer && command.endpoint != kNone);
  }

  static void join(Clock &clock, const Clock &other) {
    for (size_t i = 0; i < other.size(); ++i) // `other` is empty for an unrecorded event
      clock[i] = std::max(clock[i], other[i]);
  }

  void awaitSignal(Clock &clock, const Endpoint &endpoint) {
    const Direction opposite =
        endpoint.direction == Direction::Send ? Direction::Receive : Direction::Send;
    const size_t number = awaits_[{endpoint.channel, endpoint.direction}]++;
    const std::vector<Clock> &signals = signals_[{endpoint.channel, opposite}];
    if (number < signals.size())
      join(clock, signals[number]);
  }

  PlanTransfer transferOf(const Placed &transfer) const {
    const std::vector<Placed> &own = gemms_[transfer.command->stream];
    PlanTransfer found{.origin = transfer.command->origin,
                       .isBesideGemm = transfer.command->kind == CommandKind::Matmul,
                       .isBetweenGemms = !own.empty() && isBefore(own.front(), transfer) &&
                                         isBefore(transfer, own.back())};
    for (const std::vector<Placed> &stream : gemms_) {
      // GEMMs before the transfer come first, then unordered GEMMs, then GEMMs after the transfer.
      const auto first =
          std::partition_point(stream.begin(), stream.end(),
                               [&](const Placed &gemm) { return isBefore(gemm, transfer); });
      found.isBesideGemm |= first != stream.end() && !isBefore(transfer, *first);
    }
    return found;
  }

  const Plan &plan_;
  std::vector<Clock> now_;                                               ///< by stream
  std::vector<Clock> atEvent_;                                           ///< by event
  std::map<std::pair<uint32_t, Direction>, std::vector<Clock>> signals_; ///< in issue order
  std::map<std::pair<uint32_t, Direction>, size_t> awaits_;              ///< number issued so far
  std::vector<std::vector<Placed>> gemms_;                               ///< by stream
  std::vector<Placed> transfers_;
};

} // namespace

std::vector<PlanTransfer> transfersOf(const Plan &plan) {
  Order order(plan);
  order.run();
  return order.transfers();
}

} // namespace braid
