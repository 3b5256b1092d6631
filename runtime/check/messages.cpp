//===- runtime/check/messages.cpp - groups and collectives that meet --------------------------===//

#include "runtime/check/messages.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

namespace braid::checker {
namespace {

CheckedEvent describe(const Plan &plan, uint32_t origin) {
  return {plan.rank, 1, kNone, fmt::format("rank {}: {}", plan.rank, describeOrigin(plan, origin))};
}

/// A message of a group, by its place among all that go from one rank to another.
struct Sent {
  uint32_t group;
  uint32_t origin;
};
/// By source and destination.
using Messages = std::map<std::pair<int64_t, int64_t>, std::vector<Sent>>;

Messages messagesOf(llvm::ArrayRef<Plan> plans, Direction direction) {
  Messages messages;
  for (const Plan &plan : plans)
    for (uint32_t group = 0; group < plan.groups.size(); ++group)
      for (const PlanMessage &m : plan.groups[group])
        if (m.direction == direction)
          messages[direction == Direction::Send ? std::pair(plan.rank, m.peer)
                                                : std::pair(m.peer, plan.rank)]
              .push_back({group, m.origin});
  return messages;
}

/// Two groups that meet in one message meet in all that they have for each other's rank.
std::optional<Violation> matchGroups(llvm::ArrayRef<Plan> plans) {
  const Messages sends = messagesOf(plans, Direction::Send);
  Messages receives = messagesOf(plans, Direction::Receive);
  struct Meeting {
    uint32_t group;
    CheckedEvent here, there;
  };
  std::map<std::tuple<int64_t, uint32_t, int64_t>, Meeting> meetings; ///< of (rank, group, peer)
  auto note = [&](const Plan &plan, Sent mine, const Plan &peer,
                  Sent other) -> std::optional<Violation> {
    const Meeting meeting{other.group, describe(plan, mine.origin), describe(peer, other.origin)};
    auto [entry, isNew] = meetings.try_emplace({plan.rank, mine.group, peer.rank}, meeting);
    if (isNew || entry->second.group == other.group)
      return std::nullopt;
    return Violation{CheckRule::Transfers,
                     fmt::format("a group of rank {} meets two groups of rank {}, but a group is "
                                 "over as a whole",
                                 plan.rank, peer.rank),
                     {entry->second.here, entry->second.there, meeting.here, meeting.there},
                     {}};
  };
  for (const auto &[pair, sent] : sends) {
    const Plan &source = plans[static_cast<size_t>(pair.first)];
    const Plan &target = plans[static_cast<size_t>(pair.second)];
    for (const auto &[send, receive] : llvm::zip(sent, receives[pair])) {
      if (std::optional<Violation> violation = note(source, send, target, receive))
        return violation;
      if (std::optional<Violation> violation = note(target, receive, source, send))
        return violation;
    }
  }
  return std::nullopt; // what meets nothing is found when transfers are matched
}

/// What members must agree about.
std::string str(const PlanCollective &c) {
  return fmt::format("{}{} of {} bytes of {} to {}{}", name(c.kind).str(),
                     c.reduction ? " " + name(*c.reduction).str() : std::string(), c.src.bytes,
                     name(c.dtype).str(), c.dst.bytes,
                     c.root < 0 ? std::string() : fmt::format(", root {}", c.root));
}

struct Issued {
  const PlanCollective *collective;
  uint32_t origin;
};

std::vector<Issued> collectivesOf(const Plan &plan, const std::vector<int64_t> &team) {
  std::vector<Issued> issued;
  for (const Command &command : plan.commands)
    if (command.kind == CommandKind::Collective)
      if (const PlanCollective &c = plan.collectives[command.collective]; c.team == team)
        issued.push_back({&c, command.origin});
  return issued;
}

std::optional<Violation> matchTeam(llvm::ArrayRef<Plan> plans, const std::vector<int64_t> &team) {
  const Plan &first = plans[static_cast<size_t>(team.front())];
  const std::vector<Issued> expected = collectivesOf(first, team);
  for (int64_t rank : team) {
    const Plan &plan = plans[static_cast<size_t>(rank)];
    const std::vector<Issued> issued = collectivesOf(plan, team);
    for (size_t i = 0; i < std::max(expected.size(), issued.size()); ++i) {
      const bool isShort = i >= issued.size(), isLong = i >= expected.size();
      if (isShort || isLong) {
        const Plan &with = isShort ? first : plan, &without = isShort ? plan : first;
        return Violation{CheckRule::Transfers,
                         fmt::format("rank {} takes no part in a collective of its team [{}]",
                                     without.rank, fmt::join(team, ", ")),
                         {describe(with, (isShort ? expected : issued)[i].origin)},
                         {}};
      }
      const std::string here = str(*issued[i].collective), there = str(*expected[i].collective);
      if (here != there)
        return Violation{CheckRule::Transfers,
                         fmt::format("members of team [{}] issue different collectives: {} on rank "
                                     "{}, {} on rank {}",
                                     fmt::join(team, ", "), there, first.rank, here, rank),
                         {describe(first, expected[i].origin), describe(plan, issued[i].origin)},
                         {}};
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<Violation> matchMessages(llvm::ArrayRef<Plan> plans) {
  std::set<std::vector<int64_t>> teams;
  for (const Plan &plan : plans)
    for (const PlanCollective &collective : plan.collectives)
      teams.insert(collective.team);
  for (const std::vector<int64_t> &team : teams)
    if (std::optional<Violation> violation = matchTeam(plans, team))
      return violation;
  return matchGroups(plans);
}

std::optional<Violation> findUnprovable(llvm::ArrayRef<Plan> plans, bool ordered, bool isDefined) {
  for (const Plan &plan : plans)
    for (const Command &command : plan.commands) {
      if (command.kind != CommandKind::Collective)
        continue;
      const PlanCollective &c = plan.collectives[command.collective];
      const bool isSum = c.reduction == ReductionOperator::Sum;
      if (c.reduction && (ordered || (isDefined && !isSum)))
        return Violation{CheckRule::Result,
                         isSum ? "a collective adds in an order of its own"
                               : "no definition has the result of this collective",
                         {describe(plan, command.origin)},
                         {}};
    }
  return std::nullopt;
}

} // namespace braid::checker
