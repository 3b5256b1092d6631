//===- tests/runtime/checker_messages_test.cpp - detection of damaged groups and collectives --===//
//
// Takes Plans of programs that are safe over messages and damages one rank's Plan in every possible
// place. Any such damage would cause a hang or transfer wrong data.
//
//===----------------------------------------------------------------------------------------===//

#include "tests/support/checked.h"
#include "tests/support/damage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

using Plans = std::vector<Plan>;

Planned subjectOf(const std::string &text, const std::string &schedule = "",
                  std::optional<int64_t> ranks = {}) {
  return planned(text, schedule, {.ranks = ranks, .transport = Transport::Messages});
}

CheckReport judge(const Planned &subject, const Plans &plans) {
  Result<CheckReport> report = check(plans, subject.compiled.fusion, {.queues = 1});
  EXPECT_TRUE(report.isOk()) << report.status().message();
  return report ? *report : CheckReport();
}

constexpr const char *kGather = R"(fusion @g(D = 3) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 4, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[Stream{D}, 4, 6]
  output %C
}
)";
constexpr const char *kReduce = R"(fusion @r(D = 3) {
  mesh [0 .. D)
  %A = input f32[D, 4, DIDx{D}, 5]
  %B = input f32[DIDx{D}, 5, 6]
  %C = matmul %A, %B : f32[DIDx{D}, 4, 6]
  output %C
}
)";
/// Collectives of various kinds and sizes. Two of their teams overlap.
constexpr const char *kCollectives = R"(program @c mesh [0 .. 3)
    (%A: f32[6]) -> (%B: f32[18], %C: f32[6], %D: f32[2], %E: f32[6]) {
  %a = collective allgather %B, %A
  wait %a
  %b = collective broadcast %C, %A root 1
  wait %b
  %c = collective reduce_scatter sum %D, %A
  wait %c
  %d = collective allreduce sum %E, %A
  wait %d
  %t = allocate device f32[6]
  %e = collective allreduce sum %t, %A team [2, 0]
  wait %e
  %f = collective allreduce sum %t, %A team [0, 2]
  wait %f
}
)";

std::vector<Planned> subjects() {
  std::vector<Planned> all;
  for (int64_t ranks : {2, 3, 4}) {
    for (const char *schedule : {"pairwise", "ring", "batched", "bulk", "sequential",
                                 "pairwise;chunks=2", "pairwise;placement=shared"})
      all.push_back(subjectOf(kGather, schedule, ranks));
    for (const char *schedule : {"pairwise", "ring", "bulk", "sequential", "pairwise;chunks=2"})
      all.push_back(subjectOf(kReduce, schedule, ranks));
  }
  all.push_back(subjectOf(kCollectives));
  return all;
}

template <CommandKind Kind> std::optional<bool> swapWithNext(Plan &plan, size_t k) {
  const std::optional<size_t> index = findCommand(plan, k, Kind),
                              next = findCommand(plan, k + 1, Kind);
  if (!next)
    return false;
  Command &one = plan.commands[*index], &other = plan.commands[*next];
  std::swap(one.group, other.group);
  std::swap(one.collective, other.collective);
  return true;
}

template <auto Change> std::optional<bool> changeMessage(Plan &plan, size_t k) {
  for (PlanGroup &group : plan.groups) {
    if (k < group.size()) {
      Change(group, group.begin() + static_cast<std::ptrdiff_t>(k));
      return true;
    }
    k -= group.size();
  }
  return false;
}

void drop(PlanGroup &group, PlanGroup::iterator message) { group.erase(message); }
void turn(PlanGroup &, PlanGroup::iterator message) {
  message->direction = message->direction == Direction::Send ? Direction::Receive : Direction::Send;
}
void shorten(PlanGroup &, PlanGroup::iterator message) {
  message->range.bytes -= sizeOf(message->dtype);
}

template <auto Change> std::optional<bool> changeCollective(Plan &plan, size_t k) {
  const std::optional<size_t> index = findCommand(plan, k, CommandKind::Collective);
  if (!index)
    return false;
  PlanCollective &collective = plan.collectives[plan.commands[*index].collective];
  return Change(collective) ? std::optional<bool>(true) : kSame;
}

bool changeRoot(PlanCollective &c) {
  if (c.root < 0)
    return false;
  c.root = (c.root + 1) % c.members();
  return true;
}
bool changeOperator(PlanCollective &c) {
  if (!c.reduction)
    return false;
  c.reduction = ReductionOperator::Max;
  return true;
}
bool changeType(PlanCollective &c) {
  c.dtype = DType::F16;
  return true;
}
bool changeKind(PlanCollective &c) {
  c.kind =
      c.kind == CollectiveKind::AllReduce ? CollectiveKind::AllToAll : CollectiveKind::AllReduce;
  return true;
}
bool leaveTeam(PlanCollective &c) {
  c.team.pop_back();
  return true;
}

constexpr NamedDamage kDamages[] = {
    {"drop a group", dropCommand<CommandKind::Group>},
    {"drop a collective", dropCommand<CommandKind::Collective>},
    {"swap two collectives", swapWithNext<CommandKind::Collective>},
    {"swap two groups", swapWithNext<CommandKind::Group>},
    {"drop a message", changeMessage<drop>},
    {"turn a message round", changeMessage<turn>},
    {"shorten a message", changeMessage<shorten>},
    {"split a group", splitGroup},
    {"another root", changeCollective<changeRoot>},
    {"another operator", changeCollective<changeOperator>},
    {"another type", changeCollective<changeType>},
    {"another kind", changeCollective<changeKind>},
    {"another team", changeCollective<leaveTeam>},
};

TEST(CheckerMessages, EveryDamageIsFound) {
  DamageCount count(kDamages);
  for (const Planned &subject : subjects()) {
    ASSERT_TRUE(judge(subject, subject.plans).isSafe()) << str(judge(subject, subject.plans));
    count.expectFound(subject.plans, [&](const Plans &damaged, size_t) {
      return !judge(subject, damaged).isSafe();
    });
  }
  count.expectAtLeast(1);
}

/// The groups of a rank are on two streams. Without events between these streams, two groups could
/// use the communicator concurrently or in an undefined order.
TEST(CheckerMessages, GroupsOnSeveralStreamsAreOrdered) {
  int dropped = 0;
  for (const char *schedule : {"pairwise;streams=3", "pairwise;chunks=2;streams=3"}) {
    const Planned subject = subjectOf(kGather, schedule, 4);
    for (size_t k = 0;; ++k) {
      Plans damaged = subject.plans;
      const std::optional<size_t> wait = findCommand(damaged[0], k, CommandKind::WaitEvent);
      if (!wait)
        break;
      const bool isBeforeGroup = damaged[0].commands[*wait + 1].kind == CommandKind::Group;
      eraseCommand(damaged[0], *wait);
      if (!isBeforeGroup)
        continue;
      const CheckReport report = judge(subject, damaged);
      ASSERT_FALSE(report.isSafe()) << str(damaged[0]);
      EXPECT_EQ(report.violation->rule, CheckRule::Race) << str(report);
      EXPECT_THAT(str(report), testing::HasSubstr("%communicators of rank 0"));
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 5);
}

} // namespace
} // namespace braid::test
