//===- runtime/plan/spell_out.cpp - what messages promise, command by command -----------------===//

#include "runtime/plan/spell_out.h"

#include "runtime/plan/arena.h"
#include "runtime/plan/plan_parts.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

namespace braid {
namespace {

/// Of transfers, by what they carry.
enum Channel : uint32_t { kData, kCome, kMet, kChannels };

class Speller {
public:
  explicit Speller(Plan plan) : plan_(std::move(plan)) { arena_.allocate(plan_.deviceBytes, 0); }

  Plan run() {
    rewriteCommands(plan_, [this](const Command &command, std::vector<Command> &made) {
      commands_ = &made;
      command_ = command;
      if (command.kind == CommandKind::Group)
        spellGroup(plan_.groups[command.group]);
      if (command.kind == CommandKind::Collective)
        spellCollective(plan_.collectives[command.collective]);
      made.push_back(command);
    });
    for (uint32_t channel = 0; channel < kChannels; ++channel)
      plan_.preparation.push_back({PrepareKind::Share, channel});
    plan_.flags = static_cast<uint32_t>(plan_.endpoints.size());
    (void)newBuffer("communicators", 1);
    plan_.deviceBytes = arena_.size();
    return std::move(plan_);
  }

private:
  void spellGroup(const PlanGroup &group) {
    std::set<int64_t> peers;
    for (const PlanMessage &message : group)
      peers.insert(message.peer);
    meet(peers);
    exchange(group);
  }

  void spellCollective(const PlanCollective &collective) {
    std::set<int64_t> others(collective.team.begin(), collective.team.end());
    others.erase(plan_.rank);
    meet(others);
    switch (collective.kind) {
    case CollectiveKind::AllGather:
    case CollectiveKind::Broadcast:
    case CollectiveKind::AllToAll:
      return moveParts(collective);
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllReduce:
    case CollectiveKind::Reduce:
      return sumParts(collective);
    }
  }

  void meet(const std::set<int64_t> &peers) {
    for (Channel channel : {kCome, kMet}) {
      std::vector<uint32_t> endpoints;
      for (int64_t peer : peers) {
        const Direction direction = plan_.rank < peer ? Direction::Send : Direction::Receive;
        endpoints.push_back(
            endpointOf({direction, peer, {}, DType::F32, command_.origin}, channel));
      }
      for (uint32_t endpoint : endpoints)
        add(CommandKind::Signal, endpoint);
      for (uint32_t endpoint : endpoints)
        add(CommandKind::Await, endpoint);
    }
  }

  /// Receivers copy.
  void exchange(llvm::ArrayRef<PlanMessage> messages) {
    std::vector<uint32_t> sent, received;
    for (const PlanMessage &message : messages)
      (message.direction == Direction::Send ? sent : received)
          .push_back(endpointOf(message, kData));
    for (uint32_t endpoint : sent)
      add(CommandKind::Signal, endpoint);
    for (uint32_t endpoint : received) {
      add(CommandKind::Await, endpoint);
      Command &copy = add(CommandKind::Copy, endpoint);
      copy.dst = plan_.endpoints[endpoint].range;
      copy.src = {kPeerBuffer, 0, copy.dst.bytes};
      copy.dtype = plan_.endpoints[endpoint].dtype;
      add(CommandKind::Signal, endpoint);
    }
    for (uint32_t endpoint : sent)
      add(CommandKind::Await, endpoint);
  }

  void moveParts(const PlanCollective &c) {
    const bool isToAll = c.kind == CollectiveKind::AllToAll;
    const bool isFromAll = c.kind != CollectiveKind::Broadcast;
    const int64_t bytes = isToAll ? c.src.bytes / c.members() : c.src.bytes;
    std::vector<PlanMessage> messages;
    for (int64_t member = 0; member < c.members(); ++member) {
      const int64_t rank = c.team[static_cast<size_t>(member)];
      const Range sent = isToAll ? cut(c.src, member * bytes, bytes) : c.src;
      const Range received = isFromAll ? cut(c.dst, member * bytes, bytes) : c.dst;
      const bool sends = isFromAll || plan_.rank == c.root;
      if (rank == plan_.rank && sends)
        copyHere(received, sent, c.dtype);
      if (rank != plan_.rank && sends)
        messages.push_back({Direction::Send, rank, sent, c.dtype, command_.origin});
      if (rank != plan_.rank && (isFromAll || rank == c.root))
        messages.push_back({Direction::Receive, rank, received, c.dtype, command_.origin});
    }
    exchange(messages);
  }

  /// Who gets a sum, or a block of it, takes the parts of all.
  void sumParts(const PlanCollective &c) {
    const bool scatters = c.kind == CollectiveKind::ReduceScatter;
    const bool sums = c.kind != CollectiveKind::Reduce || plan_.rank == c.root;
    const int64_t bytes = c.dst.bytes;
    const Range all = {newBuffer("parts", c.members() * bytes), 0, c.members() * bytes};
    std::vector<PlanMessage> messages;
    for (int64_t member = 0; member < c.members(); ++member) {
      const int64_t rank = c.team[static_cast<size_t>(member)];
      const Range sent = scatters ? cut(c.src, member * bytes, bytes) : c.src;
      const Range part = cut(all, member * bytes, bytes);
      if (rank == plan_.rank && sums)
        copyHere(part, sent, c.dtype);
      if (rank == plan_.rank)
        continue;
      if (c.kind != CollectiveKind::Reduce || rank == c.root)
        messages.push_back({Direction::Send, rank, sent, c.dtype, command_.origin});
      if (sums)
        messages.push_back({Direction::Receive, rank, part, c.dtype, command_.origin});
    }
    exchange(messages);
    if (!sums)
      return;
    Command &sum = add(CommandKind::Sum, kNone);
    sum.sum = static_cast<uint32_t>(plan_.sums.size());
    plan_.sums.push_back({c.dtype, c.dtype, c.members(), bytes, c.dst, all, Range{}, c.dtype});
  }

  uint32_t endpointOf(const PlanMessage &message, Channel channel) {
    const auto number = static_cast<uint32_t>(plan_.endpoints.size());
    plan_.endpoints.push_back({.direction = message.direction,
                               .protocol = Protocol::Get,
                               .peer = message.peer,
                               .channel = channel,
                               .sequence = sequences_[{message.direction, message.peer, channel}]++,
                               .range = message.range,
                               .dtype = message.dtype,
                               .flag = number,
                               .origin = message.origin});
    return number;
  }

  Command &add(CommandKind kind, uint32_t endpoint) {
    const uint32_t origin = endpoint == kNone ? command_.origin : plan_.endpoints[endpoint].origin;
    return commands_->emplace_back(Command{.kind = kind,
                                           .stream = command_.stream,
                                           .origin = origin,
                                           .endpoint = endpoint,
                                           .flag = kind == CommandKind::Await ? endpoint : kNone});
  }

  void copyHere(Range dst, Range src, DType dtype) {
    Command &copy = add(CommandKind::Copy, kNone);
    copy.dst = dst;
    copy.src = src;
    copy.dtype = dtype;
  }

  uint32_t newBuffer(const char *name, int64_t bytes) {
    plan_.buffers.push_back({BufferKind::Device, bytes, arena_.allocate(bytes, 0), name});
    return static_cast<uint32_t>(plan_.buffers.size()) - 1;
  }

  Plan plan_;
  ArenaLayout arena_;
  std::vector<Command> *commands_ = nullptr;
  Command command_ = {}; ///< that is being spelled out
  std::map<std::tuple<Direction, int64_t, uint32_t>, uint32_t> sequences_;
};

} // namespace

Plan spellOut(Plan plan) {
  if (plan.transport == Transport::PeerMemory)
    return plan;
  return Speller(std::move(plan)).run();
}

} // namespace braid
