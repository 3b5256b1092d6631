//===- runtime/plan/spell_out.cpp - expands messages and collectives --------------------------===//

#include "runtime/plan/spell_out.h"

#include "runtime/plan/arena.h"
#include "runtime/plan/collective_parts.h"
#include "runtime/plan/plan_parts.h"

#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

namespace braid {
namespace {

using Team = std::vector<int64_t>;

/// Channels of the expanded transfers: two for groups and two for each team. Their numbers are the
/// same on all ranks.
struct Channels {
  uint32_t data, come;
};

/// Numbering shared by all ranks.
struct Numbering {
  std::vector<Team> teams;
  uint32_t firstChannel = 0; ///< follows the channels of existing transfers

  Channels ofGroups() const { return {firstChannel, firstChannel + 1}; }
  Channels ofTeam(size_t team) const {
    const uint32_t data = firstChannel + 2 + 2 * static_cast<uint32_t>(team);
    return {data, data + 1};
  }
};

enum class Spelling : uint8_t { All, Data };

/// Expands the Plan of one rank.
class Speller {
public:
  Speller(Plan plan, llvm::ArrayRef<Whole> wholes, const Numbering &numbering, Spelling spelling)
      : plan_(std::move(plan)), wholes_(wholes), numbering_(numbering), spelling_(spelling),
        channels_(numbering.ofGroups()) {
    arena_.allocate(plan_.deviceBytes, 0);
  }

  Plan run() {
    rewriteCommands(plan_, [this](const Command &command, std::vector<Command> &made) {
      commands_ = &made;
      command_ = command;
      if (command.kind == CommandKind::Group)
        spellGroup(command.group);
      if (command.kind == CommandKind::Collective)
        spellCollective(plan_.collectives[command.collective]);
      made.push_back(command);
    });
    plan_.channels = numbering_.ofTeam(numbering_.teams.size()).data;
    plan_.flags = static_cast<uint32_t>(plan_.endpoints.size());
    (void)newBuffer("communicators", 1);
    plan_.deviceBytes = arena_.size();
    shrinkToFit(plan_);
    return std::move(plan_);
  }

private:
  void spellGroup(uint32_t number) {
    channels_ = numbering_.ofGroups();
    meet(*wholes_[number].ranks, wholes_[number].number);
    exchange(plan_.groups[number]);
  }

  void spellCollective(const PlanCollective &collective) {
    const auto team = llvm::find(numbering_.teams, collective.team) - numbering_.teams.begin();
    channels_ = numbering_.ofTeam(static_cast<size_t>(team));
    Team inOrder = collective.team;
    llvm::sort(inOrder);
    meet(inOrder, issued_[collective.team]++);
    if (collective.reduction)
      return sumParts(collective);
    exchange(partsOf(collective, plan_.rank), collective.dtype);
  }

  /// Adds a barrier among `ranks`. In each round, this rank signals the rank `distance` positions
  /// ahead and awaits the rank `distance` positions before it. All participants pass the same
  /// `ranks`. `number` distinguishes the barriers on a channel.
  void meet(llvm::ArrayRef<int64_t> ranks, uint32_t number) {
    if (spelling_ == Spelling::Data)
      return;
    const auto here = static_cast<size_t>(llvm::find(ranks, plan_.rank) - ranks.begin());
    for (size_t distance = 1; distance < ranks.size(); distance *= 2) {
      const int64_t next = ranks[(here + distance) % ranks.size()];
      const int64_t last = ranks[(here + ranks.size() - distance) % ranks.size()];
      add(CommandKind::Signal, addMeeting(Direction::Send, next, number));
      add(CommandKind::Await, addMeeting(Direction::Receive, last, number));
    }
  }

  uint32_t addMeeting(Direction direction, int64_t peer, uint32_t number) {
    return addEndpoint({.direction = direction,
                        .protocol = Protocol::Get,
                        .peer = peer,
                        .channel = channels_.come,
                        .sequence = number,
                        .range = {},
                        .dtype = DType::F32,
                        .origin = command_.origin,
                        .isOfMeeting = true});
  }

  /// Expands messages into copies by the receivers.
  void exchange(llvm::ArrayRef<PlanMessage> messages) {
    std::vector<uint32_t> sent, received;
    for (const PlanMessage &message : messages)
      (message.direction == Direction::Send ? sent : received).push_back(endpointOf(message));
    for (uint32_t endpoint : sent)
      add(CommandKind::Signal, endpoint);
    for (uint32_t endpoint : received) {
      add(CommandKind::Await, endpoint);
      Command &copy = add(CommandKind::Copy, endpoint);
      copy.dst = plan_.endpoints[endpoint].range;
      copy.src = {kPeerBuffer, 0, copy.dst.bytes};
      add(CommandKind::Signal, endpoint);
    }
    for (uint32_t endpoint : sent)
      add(CommandKind::Await, endpoint);
  }

  /// Copies the local part, which comes first in `parts`, and exchanges the other parts.
  void exchange(llvm::ArrayRef<CollectivePart> parts, DType dtype) {
    if (const CollectivePart &own = parts.front(); own.send.bytes > 0) {
      Command &copy = add(CommandKind::Copy, kNone);
      copy.dst = own.receive;
      copy.src = own.send;
    }
    std::vector<PlanMessage> messages;
    for (const CollectivePart &part : parts.drop_front()) {
      if (part.send.bytes > 0)
        messages.push_back({Direction::Send, part.peer, part.send, dtype, command_.origin});
      if (part.receive.bytes > 0)
        messages.push_back({Direction::Receive, part.peer, part.receive, dtype, command_.origin});
    }
    exchange(messages);
  }

  /// Copies and adds all members' parts, on each member that receives the sum or a block of it.
  void sumParts(const PlanCollective &c) {
    const int64_t bytes = c.dst.bytes;
    const Range all = {newBuffer("parts", c.members() * bytes), 0, c.members() * bytes};
    exchange(partsToSum(c, plan_.rank, all.buffer), c.dtype);
    if (c.kind == CollectiveKind::Reduce && plan_.rank != c.root)
      return;
    Command &sum = add(CommandKind::Sum, kNone);
    sum.sum = static_cast<uint32_t>(plan_.sums.size());
    plan_.sums.push_back({c.dtype, c.dtype, c.members(), bytes, c.dst, all, Range{}, c.dtype});
  }

  uint32_t endpointOf(const PlanMessage &message) {
    return addEndpoint({.direction = message.direction,
                        .protocol = Protocol::Get,
                        .peer = message.peer,
                        .channel = channels_.data,
                        .sequence = sequences_[{message.direction, message.peer, channels_.data}]++,
                        .range = message.range,
                        .dtype = message.dtype,
                        .origin = message.origin});
  }

  uint32_t addEndpoint(Endpoint endpoint) {
    endpoint.flag = static_cast<uint32_t>(plan_.endpoints.size());
    endpoint.isOfMessages = true;
    plan_.endpoints.push_back(endpoint);
    return endpoint.flag;
  }

  Command &add(CommandKind kind, uint32_t endpoint) {
    const uint32_t origin = endpoint == kNone ? command_.origin : plan_.endpoints[endpoint].origin;
    return commands_->emplace_back(Command{.kind = kind,
                                           .stream = command_.stream,
                                           .origin = origin,
                                           .endpoint = endpoint,
                                           .group = command_.group,
                                           .collective = command_.collective});
  }

  uint32_t newBuffer(const char *name, int64_t bytes) {
    plan_.buffers.push_back({BufferKind::Device, bytes, arena_.allocate(bytes, 0), name});
    return static_cast<uint32_t>(plan_.buffers.size()) - 1;
  }

  Plan plan_;
  llvm::ArrayRef<Whole> wholes_; ///< by group
  const Numbering &numbering_;
  const Spelling spelling_;
  ArenaLayout arena_;
  std::vector<Command> *commands_ = nullptr;
  Command command_ = {};            ///< the command being expanded
  Channels channels_;               ///< channels for `command_`
  std::map<Team, uint32_t> issued_; ///< number of collectives, by team
  std::map<std::tuple<Direction, int64_t, uint32_t>, uint32_t> sequences_;
};

/// The groups that contain the messages of each (source, destination) pair, in message order.
using Sides = std::map<std::pair<int64_t, int64_t>, std::vector<unsigned>>;

/// Returns the source and destination, shifted so that the destination is one of the first `period`
/// ranks, which represent all ranks.
std::pair<int64_t, int64_t> pairOf(const Plan &plan, const PlanMessage &message, int64_t period) {
  if (message.direction == Direction::Receive)
    return {message.peer, plan.rank};
  const int64_t by = message.peer - message.peer % period;
  return {(plan.rank - by + plan.ranks) % plan.ranks, message.peer - by};
}

Sides sidesOf(llvm::ArrayRef<Plan> plans, Direction direction) {
  const auto period = static_cast<int64_t>(plans.size());
  Sides sides;
  unsigned group = 0;
  for (const Plan &plan : plans)
    for (const PlanGroup &messages : plan.groups) {
      for (const PlanMessage &m : messages)
        if (m.direction == direction)
          sides[pairOf(plan, m, period)].push_back(group);
      ++group;
    }
  return sides;
}

} // namespace

std::vector<std::vector<Whole>> wholesOf(llvm::ArrayRef<Plan> plans) {
  unsigned count = 0;
  for (const Plan &plan : plans)
    count += static_cast<unsigned>(plan.groups.size());
  llvm::IntEqClasses classes(count);
  Sides receives = sidesOf(plans, Direction::Receive);
  for (const auto &[pair, sent] : sidesOf(plans, Direction::Send))
    for (const auto &[send, receive] : llvm::zip(sent, receives[pair]))
      classes.join(send, receive);
  classes.compress();
  std::vector<std::shared_ptr<std::vector<int64_t>>> ranks(classes.getNumClasses());
  for (auto &ofWhole : ranks)
    ofWhole = std::make_shared<std::vector<int64_t>>();
  unsigned group = 0;
  for (const Plan &plan : plans)
    for (size_t i = 0; i < plan.groups.size(); ++i)
      if (std::vector<int64_t> &known = *ranks[classes[group++]];
          known.empty() || known.back() != plan.rank)
        known.push_back(plan.rank);
  std::vector<std::vector<Whole>> wholes;
  group = 0;
  for (const Plan &plan : plans) {
    std::vector<Whole> &ofRank = wholes.emplace_back();
    for (size_t i = 0; i < plan.groups.size(); ++i, ++group)
      ofRank.push_back({classes[group], ranks[classes[group]]});
  }
  return wholes;
}

static Numbering numberingOf(llvm::ArrayRef<Plan> plans) {
  Numbering numbering;
  std::set<Team> teams;
  for (const Plan &plan : plans) {
    for (const PlanCollective &collective : plan.collectives)
      teams.insert(collective.team);
    numbering.firstChannel = std::max(numbering.firstChannel, plan.channels);
    for (const Endpoint &endpoint : plan.endpoints)
      numbering.firstChannel = std::max(numbering.firstChannel, endpoint.channel + 1);
  }
  numbering.teams.assign(teams.begin(), teams.end());
  return numbering;
}

static std::vector<Plan> spellOut(llvm::ArrayRef<Plan> plans, Spelling spelling) {
  const Numbering numbering = numberingOf(plans);
  const std::vector<std::vector<Whole>> wholes = wholesOf(plans);
  std::vector<Plan> spelled;
  for (size_t rank = 0; rank < plans.size(); ++rank)
    spelled.push_back(Speller(plans[rank], wholes[rank], numbering, spelling).run());
  return spelled;
}

std::vector<Plan> spellOut(llvm::ArrayRef<Plan> plans) { return spellOut(plans, Spelling::All); }
std::vector<Plan> spellOutData(llvm::ArrayRef<Plan> plans) {
  return spellOut(plans, Spelling::Data);
}

} // namespace braid
