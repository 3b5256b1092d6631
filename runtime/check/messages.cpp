//===- runtime/check/messages.cpp - matches groups and collectives ----------------------------===//

#include "runtime/check/messages.h"

#include "runtime/check/access.h"
#include "runtime/plan/spell_out.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

namespace braid::checker {
namespace {

/// Finds two groups of one rank in the same whole: the second group would have to start before the
/// first one has ended.
std::optional<Violation> findTwo(llvm::ArrayRef<Plan> plans) {
  const std::vector<std::vector<Whole>> wholes = wholesOf(plans);
  for (const Plan &plan : plans) {
    std::map<uint32_t, size_t> seen;
    const std::vector<Whole> &mine = wholes[static_cast<size_t>(plan.rank)];
    for (size_t group = 0; group < mine.size(); ++group) {
      auto [entry, isNew] = seen.try_emplace(mine[group].number, group);
      if (!isNew)
        return Violation{
            CheckRule::Transfers,
            fmt::format(
                "two groups of rank {} belong to the same set of groups that exchange messages, "
                "but no group in such a set can end before all of them have started",
                plan.rank),
            {describeNode(plan, plan.groups[entry->second].front().origin),
             describeNode(plan, plan.groups[group].front().origin)},
            {}};
    }
  }
  return std::nullopt;
}

/// Finds received messages with overlapping destinations. They would race, because messages may
/// arrive in any order.
std::optional<Violation> findOverlap(const Plan &plan, const PlanGroup &group) {
  std::vector<std::pair<Place, const PlanMessage *>> received;
  for (const PlanMessage &message : group)
    if (message.direction == Direction::Receive && message.range.bytes != 0)
      received.emplace_back(placeOf(plan, message.range), &message);
  const auto from = [](const auto &each) { return std::pair(each.first.memory, each.first.begin); };
  llvm::sort(received, [&](const auto &a, const auto &b) { return from(a) < from(b); });
  for (size_t i = 1; i < received.size(); ++i) {
    const auto &[before, first] = received[i - 1];
    const auto &[place, second] = received[i];
    if (before.memory == place.memory && place.begin < before.end)
      return Violation{
          CheckRule::Race,
          fmt::format("two messages of a group write the same bytes [{} .. {}) of %{} on rank {} "
                      "in an undefined order",
                      second->range.offset,
                      second->range.offset + std::min(before.end, place.end) - place.begin,
                      plan.buffers[second->range.buffer].name, plan.rank),
          {describeNode(plan, first->origin), describeNode(plan, second->origin)},
          {}};
  }
  return std::nullopt;
}

std::string str(const PlanCollective &c) {
  return fmt::format("{}{} of {} bytes of {} into {} bytes{}", name(c.kind).str(),
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
                         fmt::format("rank {} does not join a collective of its team [{}]",
                                     without.rank, fmt::join(team, ", ")),
                         {describeNode(with, (isShort ? expected : issued)[i].origin)},
                         {}};
      }
      const std::string here = str(*issued[i].collective), there = str(*expected[i].collective);
      if (here != there)
        return Violation{
            CheckRule::Transfers,
            fmt::format(
                "members of team [{}] issue different collectives: {} on rank {} and {} on rank {}",
                fmt::join(team, ", "), there, first.rank, here, rank),
            {describeNode(first, expected[i].origin), describeNode(plan, issued[i].origin)},
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
  for (const Plan &plan : plans)
    for (const PlanGroup &group : plan.groups)
      if (std::optional<Violation> violation = findOverlap(plan, group))
        return violation;
  return findTwo(plans);
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
                         isSum ? "a collective does not guarantee the order of its additions"
                               : "the fusion defines no such reduction; expected a sum",
                         {describeNode(plan, command.origin)},
                         {}};
    }
  return std::nullopt;
}

} // namespace braid::checker
