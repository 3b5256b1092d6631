//===- runtime/check/transfers.cpp - matches the endpoints of transfers -----------------------===//

#include "runtime/check/transfers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::checker {
namespace {

/// (destination, channel, sequence) identifies a transfer among those with the same source.
using TransferKey = std::tuple<int64_t, uint32_t, uint32_t>;

/// An endpoint of a transfer from a given source. Sorting places each transfer's send before its
/// receive.
struct Side {
  TransferKey key;
  Direction direction;
  uint32_t endpoint;
  auto operator<=>(const Side &) const = default;
};

CheckedEvent describe(const Plan &plan, const Endpoint &endpoint) {
  return describeNode(plan, endpoint.origin);
}

class Matcher {
public:
  Matcher(llvm::ArrayRef<Plan> plans, Partners &partners, const ProgressFn &progress)
      : plans_(plans), partners_(partners), progress_(progress) {}

  std::optional<Violation> run() {
    partners_.assign(plans_.size(), {});
    for (size_t rank = 0; rank < plans_.size(); ++rank)
      partners_[rank].assign(plans_[rank].endpoints.size(), kNone);
    for (auto step : {&Matcher::agree, &Matcher::index, &Matcher::meet, &Matcher::checkReach,
                      &Matcher::checkFlags, &Matcher::checkCommands, &Matcher::checkPreparation})
      if (std::optional<Violation> violation = (this->*step)())
        return violation;
    return std::nullopt;
  }

private:
  Violation violation(std::string summary, std::vector<CheckedEvent> events) {
    return {CheckRule::Transfers, std::move(summary), std::move(events), {}};
  }

  /// Checks that there is one Plan for each rank, all of the same program.
  std::optional<Violation> agree() {
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      const Plan &plan = plans_[rank];
      if (plan.rank != static_cast<int64_t>(rank) ||
          plan.ranks != static_cast<int64_t>(plans_.size()))
        return violation(
            fmt::format("expected the Plan for rank {} of {}, got the Plan for rank {} of {}", rank,
                        plans_.size(), plan.rank, plan.ranks),
            {});
      if (plan.ranksPerHost != plans_.front().ranksPerHost)
        return violation(
            fmt::format("the Plans for ranks 0 and {} assume different numbers of ranks per host",
                        rank),
            {});
      if (plan.fingerprint != plans_.front().fingerprint)
        return violation(fmt::format("ranks 0 and {} run different programs", rank), {});
    }
    return std::nullopt;
  }

  std::optional<Violation> index() {
    ProgressStep step(progress_, "listing transfers", "ranks", plans_.size());
    sides_.resize(plans_.size());
    for (const Plan &plan : plans_) {
      step.advance();
      for (uint32_t i = 0; i < plan.endpoints.size(); ++i) {
        const Endpoint &e = plan.endpoints[i];
        if (e.peer < 0 || e.peer >= static_cast<int64_t>(plans_.size()) || e.peer == plan.rank)
          return violation(
              fmt::format("the peer of a transfer, rank {}, does not exist or is the rank itself",
                          e.peer),
              {describe(plan, e)});
        const bool isSend = e.direction == Direction::Send;
        const int64_t source = isSend ? plan.rank : e.peer, target = isSend ? e.peer : plan.rank;
        sides_[static_cast<size_t>(source)].push_back(
            {{target, e.channel, e.sequence}, e.direction, i});
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> meet() {
    ProgressStep step(progress_, "matching transfers", "ranks", plans_.size());
    for (size_t source = 0; source < plans_.size(); ++source) {
      step.advance();
      std::vector<Side> &sides = sides_[source];
      std::sort(sides.begin(), sides.end());
      for (llvm::ArrayRef<Side> left = sides; !left.empty();) {
        const size_t count = static_cast<size_t>(
            llvm::find_if(left, [&](const Side &side) { return side.key != left.front().key; }) -
            left.begin());
        if (auto violation = meetOne(plans_[source], left.take_front(count)))
          return violation;
        left = left.drop_front(count);
      }
      sides = {};
    }
    return std::nullopt;
  }

  std::optional<Violation> meetOne(const Plan &source, llvm::ArrayRef<Side> sides) {
    const Plan &target = plans_[static_cast<size_t>(std::get<0>(sides.front().key))];
    auto planOf = [&](const Side &side) -> const Plan & {
      return side.direction == Direction::Send ? source : target;
    };
    for (const auto &[a, b] : llvm::zip(sides.drop_back(), sides.drop_front()))
      if (a.direction == b.direction)
        return violation("two endpoints describe the same end of one transfer",
                         {describe(planOf(a), planOf(a).endpoints[a.endpoint]),
                          describe(planOf(b), planOf(b).endpoints[b.endpoint])});
    const Side &first = sides.front(), &second = sides.back();
    if (first.direction != Direction::Send)
      return alone(target, target.endpoints[first.endpoint]);
    if (second.direction != Direction::Receive)
      return alone(source, source.endpoints[first.endpoint]);
    return join(source, first.endpoint, target, second.endpoint);
  }

  /// Reports that `e` has no partner. Its peer may have an unmatched counterpart with different
  /// handles, or fewer endpoints with the same handles.
  Violation alone(const Plan &plan, const Endpoint &e) {
    const Plan &peer = plans_[static_cast<size_t>(e.peer)];
    const bool isSend = e.direction == Direction::Send;
    const char *mine = isSend ? "send" : "receive", *others = isSend ? "receive" : "send";
    Violation found =
        violation(fmt::format("no {} on rank {} matches this {}", others, peer.rank, mine),
                  {describe(plan, e)});
    size_t sameHandles = 0;
    for (const Endpoint &each : peer.endpoints) {
      if (each.direction == e.direction || each.peer != plan.rank)
        continue;
      if (each.channel == e.channel)
        ++sameHandles;
      else if (found.events.size() == 1 && !meetsOneOf(plan, peer, each))
        found.events.push_back(describe(peer, each));
    }
    if (found.events.size() == 2)
      found.notes.push_back(
          fmt::format("rank {} has a matching {}, but it uses different handles; both "
                      "sides must use the same share_mem_handles",
                      peer.rank, others));
    else if (sameHandles != 0)
      found.notes.push_back(fmt::format("with these handles, rank {} has {} {}{} for rank {}, but "
                                        "this is {} number {}",
                                        peer.rank, sameHandles, others, sameHandles == 1 ? "" : "s",
                                        plan.rank, mine, e.sequence + 1));
    return found;
  }

  /// Returns true if `of`, an endpoint of `peer`, matches an endpoint of `plan`.
  static bool meetsOneOf(const Plan &plan, const Plan &peer, const Endpoint &of) {
    return llvm::any_of(plan.endpoints, [&](const Endpoint &each) {
      return each.direction != of.direction && each.peer == peer.rank &&
             each.channel == of.channel && each.sequence == of.sequence;
    });
  }

  std::optional<Violation> join(const Plan &source, uint32_t sender, const Plan &target,
                                uint32_t receiver) {
    const Endpoint &send = source.endpoints[sender], &receive = target.endpoints[receiver];
    if (send.range.bytes != receive.range.bytes || send.dtype != receive.dtype ||
        send.protocol != receive.protocol)
      return violation(
          fmt::format(
              "a send of {} bytes of {} ({}) does not match a receive of {} bytes of {} ({})",
              send.range.bytes, name(send.dtype).str(), name(send.protocol).str(),
              receive.range.bytes, name(receive.dtype).str(), name(receive.protocol).str()),
          {describe(source, send), describe(target, receive)});
    partners_[static_cast<size_t>(source.rank)][sender] = receiver;
    partners_[static_cast<size_t>(target.rank)][receiver] = sender;
    return std::nullopt;
  }

  /// Checks that each peer can reach the memory that it accesses, and is on the same host.
  std::optional<Violation> checkReach() {
    for (const Plan &plan : plans_)
      for (const Endpoint &e : plan.endpoints) {
        if (e.isOfMessages)
          continue; // messages may use any memory
        if (!plan.isSameHost(e.peer))
          return violation(
              fmt::format("rank {} is on another host, so only messages can reach it", e.peer),
              {describe(plan, e)});
        bool isPassive = (e.protocol == Protocol::Get) == (e.direction == Direction::Send);
        if (isPassive && e.range.buffer == kPeerBuffer)
          return violation(
              "the peer must access data of this rank, but the data is in the peer's own memory",
              {describe(plan, e)});
        if (isPassive && plan.buffers[e.range.buffer].kind != BufferKind::Symmetric)
          return violation(
              fmt::format("%{} is not accessible to the peer", plan.buffers[e.range.buffer].name),
              {describe(plan, e)});
      }
    return std::nullopt;
  }

  /// Checks that no two endpoints share a flag, which would make their signals indistinguishable.
  std::optional<Violation> checkFlags() {
    ProgressStep step(progress_, "matching signals with flags", "ranks", plans_.size());
    for (const Plan &plan : plans_) {
      step.advance();
      llvm::DenseMap<uint32_t, const Endpoint *> owner;
      for (const Endpoint &e : plan.endpoints) {
        auto [entry, isNew] = owner.try_emplace(e.flag, &e);
        if (!isNew)
          return violation(fmt::format("two transfers share flag {}", e.flag),
                           {describe(plan, *entry->second), describe(plan, e)});
      }
    }
    return std::nullopt;
  }

  /// Checks that each endpoint has at most one command of each kind (signal, await, copy, compute)
  /// per run.
  std::optional<Violation> checkCommands() {
    ProgressStep step(progress_, "matching commands with transfers", "ranks", plans_.size());
    for (const Plan &plan : plans_) {
      step.advance();
      std::vector<uint32_t> seen(plan.endpoints.size()); ///< command kinds, one bit each
      for (const Command &command : plan.commands) {
        if (command.endpoint == kNone)
          continue;
        const Endpoint &e = plan.endpoints[command.endpoint];
        const uint32_t kind = 1u << static_cast<uint32_t>(command.kind);
        if (seen[command.endpoint] & kind)
          return violation(
              fmt::format("the {} is issued twice for one transfer", name(command.kind).str()),
              {describe(plan, e)});
        seen[command.endpoint] |= kind;
      }
    }
    return std::nullopt;
  }

  /// Checks handle exchanges, which are collective: all ranks must make the same number of them,
  /// and transfers may use only channels that have been exchanged.
  std::optional<Violation> checkPreparation() {
    for (const Plan &plan : plans_)
      if (plan.channels != plans_.front().channels)
        return violation(
            fmt::format("ranks {} and {} share memory handles a different number of times",
                        plans_.front().rank, plan.rank),
            {});
    for (const Plan &plan : plans_)
      for (const Endpoint &e : plan.endpoints)
        if (e.channel >= plan.channels)
          return violation("the memory handles that this transfer uses are never shared",
                           {describe(plan, e)});
    return std::nullopt;
  }

  llvm::ArrayRef<Plan> plans_;
  Partners &partners_;
  const ProgressFn &progress_;
  std::vector<std::vector<Side>> sides_; ///< by source
};

} // namespace

CheckedEvent describeNode(const Plan &plan, uint32_t origin) {
  return {.rank = plan.rank,
          .text = fmt::format("rank {}: {}", plan.rank, describeOrigin(plan, origin)),
          .line = lineOf(plan, origin)};
}

std::optional<Violation> matchTransfers(llvm::ArrayRef<Plan> plans, Partners &partners,
                                        const ProgressFn &progress) {
  return Matcher(plans, partners, progress).run();
}

Alike findAlike(llvm::ArrayRef<Plan> plans, const Partners &partners) {
  auto outlineOfRank = [&](int64_t rank, Shift shift) -> Result<Outline> {
    const auto number = static_cast<size_t>(rank);
    Outline outline = outlineOf(plans[number], shift);
    llvm::append_range(outline, partners[number]);
    return outline;
  };
  return *braid::findAlike(static_cast<int64_t>(plans.size()), plans.front().ranksPerHost,
                           {Shift::Add, Shift::Xor}, outlineOfRank);
}

} // namespace braid::checker
