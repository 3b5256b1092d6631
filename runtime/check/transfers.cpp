//===- runtime/check/transfers.cpp - which endpoint meets which -------------------------------===//

#include "runtime/check/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace braid::checker {
namespace {

/// (source, destination, channel, sequence): a transfer's name among all ranks.
using TransferKey = std::tuple<int64_t, int64_t, uint32_t, uint32_t>;

TransferKey keyOf(int64_t rank, const Endpoint &e) {
  bool isSend = e.direction == Direction::Send;
  return {isSend ? rank : e.peer, isSend ? e.peer : rank, e.channel, e.sequence};
}

CheckedEvent describe(const Plan &plan, const Endpoint &endpoint) {
  return {plan.rank, 1, kNone,
          fmt::format("rank {}: {}", plan.rank, describeOrigin(plan, endpoint.origin))};
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
  struct Sides {
    std::optional<uint32_t> send, receive; ///< endpoints
  };

  Violation violation(std::string summary, std::vector<CheckedEvent> events) {
    return {CheckRule::Transfers, std::move(summary), std::move(events), {}};
  }

  /// Plans of one program, one for each rank.
  std::optional<Violation> agree() {
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      const Plan &plan = plans_[rank];
      if (plan.rank != static_cast<int64_t>(rank) ||
          plan.ranks != static_cast<int64_t>(plans_.size()))
        return violation(
            fmt::format("expected the plan of rank {} of {}, got that of rank {} of {}", rank,
                        plans_.size(), plan.rank, plan.ranks),
            {});
      if (plan.ranksPerHost != plans_.front().ranksPerHost)
        return violation(fmt::format("ranks 0 and {} do not agree about their hosts", rank), {});
      if (plan.fingerprint != plans_.front().fingerprint)
        return violation(fmt::format("ranks 0 and {} hold different programs", rank), {});
    }
    return std::nullopt;
  }

  std::optional<Violation> index() {
    ProgressStep step(progress_, "listing transfers", "ranks", plans_.size());
    for (const Plan &plan : plans_) {
      step.advance();
      for (uint32_t i = 0; i < plan.endpoints.size(); ++i) {
        const Endpoint &e = plan.endpoints[i];
        if (e.peer < 0 || e.peer >= static_cast<int64_t>(plans_.size()) || e.peer == plan.rank)
          return violation(fmt::format("there is no other rank {}", e.peer), {describe(plan, e)});
        Sides &sides = transfers_[keyOf(plan.rank, e)];
        auto &side = e.direction == Direction::Send ? sides.send : sides.receive;
        if (side)
          return violation("two endpoints stand for one transfer",
                           {describe(plan, plan.endpoints[*side]), describe(plan, e)});
        side = i;
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> meet() {
    ProgressStep step(progress_, "matching transfers", "transfers", transfers_.size());
    for (const auto &[key, sides] : transfers_) {
      step.advance();
      const Plan &source = plans_[static_cast<size_t>(std::get<0>(key))];
      const Plan &target = plans_[static_cast<size_t>(std::get<1>(key))];
      if (!sides.send)
        return violation(fmt::format("no send on rank {} meets this receive", source.rank),
                         {describe(target, target.endpoints[*sides.receive])});
      if (!sides.receive)
        return violation(fmt::format("no receive on rank {} meets this send", target.rank),
                         {describe(source, source.endpoints[*sides.send])});
      const Endpoint &send = source.endpoints[*sides.send];
      const Endpoint &receive = target.endpoints[*sides.receive];
      if (send.range.bytes != receive.range.bytes || send.dtype != receive.dtype ||
          send.protocol != receive.protocol)
        return violation(fmt::format("{} bytes of {} ({}) meet {} bytes of {} ({})",
                                     send.range.bytes, name(send.dtype).str(),
                                     name(send.protocol).str(), receive.range.bytes,
                                     name(receive.dtype).str(), name(receive.protocol).str()),
                         {describe(source, send), describe(target, receive)});
      partners_[static_cast<size_t>(source.rank)][*sides.send] = *sides.receive;
      partners_[static_cast<size_t>(target.rank)][*sides.receive] = *sides.send;
    }
    return std::nullopt;
  }

  /// The side that its peer copies from or to lies in memory that peers can reach, on their host.
  std::optional<Violation> checkReach() {
    for (const Plan &plan : plans_)
      for (const Endpoint &e : plan.endpoints) {
        if (e.isOfMessages)
          continue; // they come from and go anywhere
        if (!plan.isSameHost(e.peer))
          return violation(
              fmt::format("rank {} is on another host, so only messages reach it", e.peer),
              {describe(plan, e)});
        bool isPassive = (e.protocol == Protocol::Get) == (e.direction == Direction::Send);
        if (isPassive && e.range.buffer == kPeerBuffer)
          return violation("a peer is to reach what is stored at it", {describe(plan, e)});
        if (isPassive && plan.buffers[e.range.buffer].kind != BufferKind::Symmetric)
          return violation(
              fmt::format("%{} is out of the peer's reach", plan.buffers[e.range.buffer].name),
              {describe(plan, e)});
      }
    return std::nullopt;
  }

  /// Each endpoint awaits a flag of its own: with a shared one, a signal could pass for another.
  std::optional<Violation> checkFlags() {
    ProgressStep step(progress_, "matching signals with flags", "ranks", plans_.size());
    for (const Plan &plan : plans_) {
      step.advance();
      std::map<uint32_t, const Endpoint *> owner;
      for (const Endpoint &e : plan.endpoints) {
        auto [entry, isNew] = owner.try_emplace(e.flag, &e);
        if (!isNew)
          return violation(fmt::format("two transfers share flag {}", e.flag),
                           {describe(plan, *entry->second), describe(plan, e)});
      }
    }
    return std::nullopt;
  }

  /// An endpoint is signalled for, awaited and copied for, or computed for, at most once a run.
  std::optional<Violation> checkCommands() {
    ProgressStep step(progress_, "matching commands with transfers", "ranks", plans_.size());
    for (const Plan &plan : plans_) {
      step.advance();
      std::map<std::pair<CommandKind, uint32_t>, uint32_t> seen;
      for (const Command &command : plan.commands) {
        if (command.endpoint == kNone)
          continue;
        const Endpoint &e = plan.endpoints[command.endpoint];
        if (++seen[{command.kind, command.endpoint}] > 1)
          return violation(
              fmt::format("{} is issued twice for one transfer", name(command.kind).str()),
              {describe(plan, e)});
        if (command.kind == CommandKind::Await && command.flag != e.flag)
          return violation(
              fmt::format("awaits flag {}, but the transfer's is {}", command.flag, e.flag),
              {describe(plan, e)});
      }
    }
    return std::nullopt;
  }

  /// Sharing handles is collective: all ranks do it for the same channels, in the same order, and
  /// for every channel that a transfer goes through.
  std::optional<Violation> checkPreparation() {
    auto channels = [](const Plan &plan) {
      std::vector<uint32_t> list;
      for (const PrepareAction &step : plan.preparation)
        if (step.kind == PrepareKind::Share)
          list.push_back(step.channel);
      return list;
    };
    for (const Plan &plan : plans_)
      if (channels(plan) != channels(plans_.front()))
        return violation(fmt::format("ranks {} and {} share handles of different channels",
                                     plans_.front().rank, plan.rank),
                         {});
    for (const Plan &plan : plans_) {
      std::vector<uint32_t> shared = channels(plan);
      for (const Endpoint &e : plan.endpoints)
        if (std::find(shared.begin(), shared.end(), e.channel) == shared.end())
          return violation("the handles of this transfer are never shared", {describe(plan, e)});
    }
    return std::nullopt;
  }

  llvm::ArrayRef<Plan> plans_;
  Partners &partners_;
  const ProgressFn &progress_;
  std::map<TransferKey, Sides> transfers_;
};

} // namespace

std::optional<Violation> matchTransfers(llvm::ArrayRef<Plan> plans, Partners &partners,
                                        const ProgressFn &progress) {
  return Matcher(plans, partners, progress).run();
}

} // namespace braid::checker
