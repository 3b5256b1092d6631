//===- tests/hosts/checker_test.cpp - finds damage in programs for several hosts --------------===//
//
// Safe Plans are damaged in every possible place, one at a time: a message becomes an endpoint or
// vice versa, a group is split, or a local wait is moved before a group. Each kind of damage would
// cause a hang, an access to another host's memory, or wrong data.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/plan/spell_out.h"
#include "tests/hosts/support.h"
#include "tests/support/damage.h"

#include "llvm/ADT/STLExtras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace braid::test {
namespace {

using Plans = std::vector<Plan>;

CheckReport judge(const Planned &of, const Plans &plans) {
  Result<CheckReport> report = check(plans, of.compiled.fusion, {.queues = 1});
  EXPECT_TRUE(report.isOk()) << report.status().message();
  return report ? *report : CheckReport();
}

std::vector<Planned> cases() {
  std::vector<Planned> all;
  for (const auto &[ranks, ofHost] :
       {std::pair<int64_t, int64_t>{4, 2}, {6, 2}, {6, 3}, {4, 1}, {8, 4}}) {
    for (const char *schedule : {"pairwise", "ring", "batched", "bulk", "sequential", "coalesced",
                                 "collective", "pairwise;chunks=2", "pairwise;placement=shared",
                                 "pairwise;protocol=put", "ring;protocol=put"})
      all.push_back(planned(gatherOf(ranks, ofHost), schedule));
    for (const char *schedule :
         {"pairwise", "ring", "bulk", "sequential", "pairwise;chunks=2", "collective"})
      all.push_back(planned(scatterOf(ranks, ofHost), schedule));
  }
  return all;
}

TEST(HostsChecker, ProvesWhatLoweringMakes) {
  for (const Planned &made : cases()) {
    const CheckReport report = judge(made, made.plans);
    EXPECT_TRUE(report.isSafe()) << str(report) << str(made.plans[0]);
    EXPECT_TRUE(report.resultChecked) << str(report);
    EXPECT_GT(report.messages + report.collectives, 0u);
  }
}

/// Rank 1 signals too early that rank 0 may read %x: it writes %x afterwards, and then receives a
/// message from rank 2. Rank 0 sends a message to rank 2 before it reads %x. The groups of the
/// three ranks form one Whole, but this does not order the accesses to %x, because a library lets
/// rank 0 continue as soon as its own message is complete.
constexpr const char *kTooEarly = R"(program @early mesh [0 .. 4) of 2
    (%A: f32[4]) -> (%C: f32[4]) {
  %x = allocate symmetric f32[4]
  %y = allocate symmetric f32[4]
  %h = share_mem_handles get %x, %y
  if rank == 0 {
    set %y, %A
    %s = p2p send %y to 2 via %h
    wait %s
    %r = p2p recv %x from 1 via %h
    wait %r
    set %C, %x
  }
  if rank == 1 {
    %t = p2p send %x to 0 via %h
    set %x, %A
    %u = p2p recv %y from 2 via %h
    wait %u
    wait %t
    set %C, %y
  }
  if rank == 2 {
    set %x, %A
    group {
      %v = p2p send %x to 1 via %h
      %w = p2p recv %y from 0 via %h
    }
    wait %v
    wait %w
    set %C, %y
  }
  if rank == 3 {
    set %C, %A
  }
})";

TEST(HostsChecker, TakesNoOrderFromWhatALibraryNeedNotGive) {
  const Planned made = planned(kTooEarly);
  const CheckReport report = judge(made, made.plans);
  ASSERT_FALSE(report.isSafe());
  EXPECT_EQ(report.violation->rule, CheckRule::Race) << str(report);
}

/// The groups are those of the same program with Transport::Messages, without the messages within
/// hosts. Thus, a program that is safe with Transport::Messages is also safe here.
TEST(HostsChecker, HasNoGroupThatMessagesHaveNot) {
  for (const Planned &made : cases()) {
    Compiled asMessages = made.compiled;
    asMessages.transport = Transport::Messages;
    const Result<Plans> all = makePlans(asMessages);
    ASSERT_TRUE(all.isOk());
    for (const Plan &plan : made.plans) {
      std::vector<std::vector<PlanMessage>> expected;
      const Plan &whole = (*all)[static_cast<size_t>(plan.rank)];
      for (PlanGroup group : whole.groups) {
        std::erase_if(group, [&](const PlanMessage &m) { return plan.isSameHost(m.peer); });
        if (!group.empty())
          expected.push_back(std::move(group));
      }
      ASSERT_EQ(plan.groups.size(), expected.size()) << str(plan) << str(whole);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(plan.groups[i].size(), expected[i].size());
        for (size_t k = 0; k < expected[i].size(); ++k) {
          EXPECT_EQ(plan.groups[i][k].peer, expected[i][k].peer);
          EXPECT_EQ(plan.groups[i][k].direction, expected[i][k].direction);
        }
      }
    }
  }
}

//===- Damage ---------------------------------------------------------------------------------===//

/// Replaces the k-th message in the Plan's groups with an endpoint, its signal and its await.
std::optional<bool> toEndpoint(Plan &plan, size_t k) {
  for (uint32_t number = 0; number < plan.groups.size(); ++number) {
    PlanGroup &group = plan.groups[number];
    if (k >= group.size()) {
      k -= group.size();
      continue;
    }
    const PlanMessage message = group[k];
    const auto isThis = [&](const Command &c) {
      return c.kind == CommandKind::Group && c.group == number;
    };
    const size_t index = *findCommand(plan, 0, isThis);
    Command command = plan.commands[index];
    if (group.size() == 1)
      eraseCommand(plan, index);
    else
      group.erase(group.begin() + static_cast<std::ptrdiff_t>(k));
    const auto endpoint = static_cast<uint32_t>(plan.endpoints.size());
    plan.endpoints.push_back({.direction = message.direction,
                              .protocol = Protocol::Get,
                              .peer = message.peer,
                              .channel = 0,
                              .range = message.range,
                              .dtype = message.dtype,
                              .flag = endpoint,
                              .origin = message.origin});
    ++plan.flags;
    command.group = kNone;
    command.endpoint = endpoint;
    command.kind = CommandKind::Signal;
    insertCommand(plan, index, command);
    command.kind = CommandKind::Await;
    insertCommand(plan, index + (message.direction == Direction::Send), command);
    return true;
  }
  return false;
}

/// Replaces the k-th endpoint with a message on this rank, but not on its peer.
std::optional<bool> toMessage(Plan &plan, size_t k) {
  if (k >= plan.endpoints.size())
    return false;
  const Endpoint endpoint = plan.endpoints[k];
  const auto ofEndpoint = [&](const Command &c) { return c.endpoint == k; };
  const std::optional<size_t> first = findCommand(plan, 0, ofEndpoint);
  if (!first || endpoint.range.buffer == kPeerBuffer)
    return kSame;
  Command command = plan.commands[*first];
  while (const std::optional<size_t> next = findCommand(plan, 0, ofEndpoint))
    eraseCommand(plan, *next);
  command.kind = CommandKind::Group;
  command.endpoint = kNone;
  command.group = static_cast<uint32_t>(plan.groups.size());
  plan.groups.push_back(
      {{endpoint.direction, endpoint.peer, endpoint.range, endpoint.dtype, endpoint.origin}});
  insertCommand(plan, *first, command);
  return true;
}

/// Returns true if the two groups into which a group was split belong to the same Whole.
bool haveOneWhole(const Plans &plans, size_t rank) {
  const std::vector<Whole> wholes = wholesOf(plans)[rank];
  return llvm::any_of(llvm::ArrayRef(wholes).drop_back(),
                      [&](const Whole &each) { return each.number == wholes.back().number; });
}

std::optional<bool> otherHosts(Plan &plan, size_t k) {
  if (k > 0)
    return false;
  plan.ranksPerHost = plan.ranksPerHost == 1 ? 2 : 1;
  return true;
}

constexpr NamedDamage kDamages[] = {{"a message becomes an endpoint", toEndpoint},
                                    {"an endpoint becomes a message", toMessage},
                                    {"drop a group", dropCommand<CommandKind::Group>},
                                    {"other hosts", otherHosts}};

TEST(HostsChecker, FindsEveryDamage) {
  constexpr NamedDamage kSplit[] = {{"split a group", splitGroup}};
  DamageCount count(kDamages), splits(kSplit);
  int together = 0;
  for (const Planned &made : cases()) {
    count.expectFound(made.plans,
                      [&](const Plans &damaged, size_t) { return !judge(made, damaged).isSafe(); });
    splits.expectFound(made.plans, [&](const Plans &damaged, size_t rank) {
      if (!haveOneWhole(damaged, rank))
        return true; // the two parts were independent before the split
      ++together;
      return !judge(made, damaged).isSafe();
    });
  }
  count.expectAtLeast(20);
  EXPECT_GE(together, 20);
}

/// The endpoints of both ranks match, but the ranks are on different hosts.
TEST(HostsChecker, RefusesAnEndpointThatReachesAnotherHost) {
  Planned made = planned(gatherOf(4, 4), "pairwise");
  for (Plan &plan : made.plans)
    plan.ranksPerHost = 2;
  const CheckReport report = judge(made, made.plans);
  ASSERT_FALSE(report.isSafe());
  EXPECT_EQ(report.violation->rule, CheckRule::Transfers);
  EXPECT_THAT(report.violation->summary, testing::HasSubstr("is on another host"));
}

/// Rank 1 waits for rank 0 before it sends to rank 2, and rank 0 waits for rank 3, which waits for
/// rank 2: a cycle over two hosts.
TEST(HostsChecker, FindsACircleOverTwoHosts) {
  const auto circle = [](bool waitsFirst) {
    const std::string exchange =
        waitsFirst ? "  %r = p2p recv %in from (rank - 1) mod 4 via %h\n  wait %r\n"
                     "  %s = p2p send %out to (rank + 1) mod 4 via %h\n"
                   : "  %s = p2p send %out to (rank + 1) mod 4 via %h\n"
                     "  %r = p2p recv %in from (rank - 1) mod 4 via %h\n  wait %r\n";
    return planned("program @p mesh [0 .. 4) of 2 (%A: f32[4]) -> (%C: f32[4]) {\n"
                   "  %all = allocate symmetric f32[2, 4]\n"
                   "  %h = share_mem_handles get %all\n"
                   "  %out = select %all[0]\n  %in = select %all[1]\n  set %out, %A\n" +
                   exchange + "  set %C, %in\n  wait %s\n}\n");
  };
  const Planned good = circle(false), bad = circle(true);
  EXPECT_TRUE(judge(good, good.plans).isSafe()) << str(judge(good, good.plans));
  const CheckReport report = judge(bad, bad.plans);
  ASSERT_FALSE(report.isSafe());
  EXPECT_EQ(report.violation->rule, CheckRule::Deadlock) << str(report);
  std::set<int64_t> ranks;
  for (const CheckedEvent &event : report.violation->events)
    ranks.insert(event.rank);
  EXPECT_EQ(ranks.size(), 4u) << str(report);
}

/// Moves a local wait before a group of the same step.
TEST(HostsChecker, FindsALocalWaitBeforeAGroup) {
  int moved = 0, found = 0;
  for (const Planned &made : cases())
    for (size_t rank = 0; rank < made.plans.size(); ++rank)
      for (size_t k = 0;; ++k) {
        Plans damaged = made.plans;
        Plan &plan = damaged[rank];
        const std::optional<size_t> group = findCommand(plan, k, CommandKind::Group);
        if (!group)
          break;
        const auto isPassiveAwait = [&](const Command &c) {
          if (c.kind != CommandKind::Await)
            return false;
          const Endpoint &e = plan.endpoints[c.endpoint];
          return (e.protocol == Protocol::Get) == (e.direction == Direction::Send);
        };
        const std::optional<size_t> await = findCommand(plan, 0, isPassiveAwait);
        if (!await || *await < *group)
          continue;
        Command command = plan.commands[*await];
        command.stream = plan.commands[*group].stream;
        eraseCommand(plan, *await);
        insertCommand(plan, 0, command); // before the signal, too
        ++moved;
        found += !judge(made, damaged).isSafe();
      }
  EXPECT_GT(moved, 50);
  EXPECT_EQ(found, moved);
}

} // namespace
} // namespace braid::test
