//===- tests/runtime/checker_messages_test.cpp - damaged groups and collectives are found -----===//
//
// Plans of several programs that are safe over messages, each damaged on one rank in one place, in
// every place there is. All of these would hang, or move something wrong.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "tests/support/configured.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

using Plans = std::vector<Plan>;

struct Subject {
  std::unique_ptr<Source> source;
  Compiled compiled;
  Plans plans;
};

Subject subjectOf(const std::string &text, const std::string &schedule, int64_t ranks) {
  Subject subject{parseSource("m.braid", text), {}, {}};
  CompileOptions options{.transport = Transport::Messages};
  if (text.find("fusion") == 0)
    options.ranks = ranks;
  if (!schedule.empty())
    options.schedule = configured(schedule);
  Result<Compiled> compiled = compile(*subject.source, options);
  EXPECT_TRUE(compiled.isOk()) << subject.source->diags.str() << compiled.status().message();
  if (!compiled)
    return subject;
  subject.compiled = *compiled;
  subject.plans = std::move(*makePlans(subject.compiled));
  return subject;
}

CheckReport judge(const Subject &subject, const Plans &plans) {
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
/// Collectives of different kinds and sizes, two of them of teams that share their ranks.
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

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (int64_t ranks : {2, 3, 4}) {
    for (const char *schedule : {"pairwise", "ring", "batched", "bulk", "sequential",
                                 "pairwise;chunks=2", "pairwise;placement=shared"})
      all.push_back(subjectOf(kGather, schedule, ranks));
    for (const char *schedule : {"pairwise", "ring", "bulk", "sequential", "pairwise;chunks=2"})
      all.push_back(subjectOf(kReduce, schedule, ranks));
  }
  all.push_back(subjectOf(kCollectives, "", 3));
  return all;
}

/// The k-th command of that kind, or null.
Command *find(Plan &plan, CommandKind kind, size_t k) {
  for (Command &command : plan.commands)
    if (command.kind == kind && k-- == 0)
      return &command;
  return nullptr;
}

void erase(Plan &plan, const Command *command) {
  const auto index = static_cast<uint32_t>(command - plan.commands.data());
  for (PlanRelease &release : plan.releases)
    release.beforeCommand -= release.beforeCommand > index;
  plan.commands.erase(plan.commands.begin() + index);
}

/// Damages the k-th place of a rank. False: there is none; nothing is said where it is no damage.
using Damage = std::optional<bool> (*)(Plan &plan, size_t k);
constexpr std::optional<bool> kSame = std::nullopt;

template <CommandKind Kind> std::optional<bool> drop(Plan &plan, size_t k) {
  const Command *command = find(plan, Kind, k);
  if (!command)
    return false;
  erase(plan, command);
  return true;
}

template <CommandKind Kind> std::optional<bool> swapWithNext(Plan &plan, size_t k) {
  Command *one = find(plan, Kind, k), *other = find(plan, Kind, k + 1);
  if (!other)
    return false;
  std::swap(one->group, other->group);
  std::swap(one->collective, other->collective);
  return true;
}

std::optional<bool> dropMessage(Plan &plan, size_t k) {
  for (PlanGroup &group : plan.groups) {
    if (k < group.size()) {
      group.erase(group.begin() + static_cast<std::ptrdiff_t>(k));
      return true;
    }
    k -= group.size();
  }
  return false;
}

std::optional<bool> turnMessage(Plan &plan, size_t k) {
  for (PlanGroup &group : plan.groups) {
    if (k < group.size()) {
      Direction &direction = group[k].direction;
      direction = direction == Direction::Send ? Direction::Receive : Direction::Send;
      return true;
    }
    k -= group.size();
  }
  return false;
}

std::optional<bool> shortenMessage(Plan &plan, size_t k) {
  for (PlanGroup &group : plan.groups) {
    if (k < group.size()) {
      group[k].range.bytes -= sizeOf(group[k].dtype);
      return true;
    }
    k -= group.size();
  }
  return false;
}

/// The last message of a group comes in one of its own behind it.
std::optional<bool> splitGroup(Plan &plan, size_t k) {
  Command *command = find(plan, CommandKind::Group, k);
  if (!command)
    return false;
  PlanGroup &group = plan.groups[command->group];
  if (group.size() < 2)
    return kSame;
  Command second = *command;
  second.group = static_cast<uint32_t>(plan.groups.size());
  const PlanMessage last = group.back();
  group.pop_back();
  plan.groups.push_back({last});
  const auto index = command - plan.commands.data();
  for (PlanRelease &release : plan.releases)
    release.beforeCommand += release.beforeCommand > static_cast<uint32_t>(index);
  plan.commands.insert(plan.commands.begin() + index + 1, second);
  return true;
}

template <auto Change> std::optional<bool> changeCollective(Plan &plan, size_t k) {
  Command *command = find(plan, CommandKind::Collective, k);
  if (!command)
    return false;
  return Change(plan.collectives[command->collective]) ? std::optional<bool>(true) : kSame;
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

struct Named {
  const char *name;
  Damage damage;
};

constexpr Named kDamages[] = {
    {"drop a group", drop<CommandKind::Group>},
    {"drop a collective", drop<CommandKind::Collective>},
    {"swap two collectives", swapWithNext<CommandKind::Collective>},
    {"swap two groups", swapWithNext<CommandKind::Group>},
    {"drop a message", dropMessage},
    {"turn a message round", turnMessage},
    {"shorten a message", shortenMessage},
    {"split a group", splitGroup},
    {"another root", changeCollective<changeRoot>},
    {"another operator", changeCollective<changeOperator>},
    {"another type", changeCollective<changeType>},
    {"another kind", changeCollective<changeKind>},
    {"another team", changeCollective<leaveTeam>},
};

TEST(CheckerMessages, EveryDamageIsFound) {
  std::map<std::string, int> counts;
  int mutants = 0;
  for (const Subject &subject : subjects()) {
    ASSERT_TRUE(judge(subject, subject.plans).isSafe()) << str(judge(subject, subject.plans));
    for (const Named &named : kDamages)
      for (size_t rank = 0; rank < subject.plans.size(); ++rank)
        for (size_t k = 0;; ++k) {
          Plans damaged = subject.plans;
          const std::optional<bool> done = named.damage(damaged[rank], k);
          if (done == kSame)
            continue;
          if (!*done)
            break;
          const CheckReport report = judge(subject, damaged);
          EXPECT_FALSE(report.isSafe()) << named.name << " " << k << " of\n"
                                        << str(subject.plans[rank]) << "damaged\n"
                                        << str(damaged[rank]);
          ++counts[named.name];
          ++mutants;
        }
  }
  for (const Named &named : kDamages)
    EXPECT_GT(counts[named.name], 0) << named.name;
  std::printf("%d mutants\n", mutants);
}

/// Groups of one rank on two streams: without the events between them, two use the communicator at
/// once, or in an order that nobody knows.
TEST(CheckerMessages, GroupsOnSeveralStreamsAreOrdered) {
  int dropped = 0;
  for (const char *schedule : {"pairwise;streams=3", "pairwise;chunks=2;streams=3"}) {
    const Subject subject = subjectOf(kGather, schedule, 4);
    for (size_t k = 0;; ++k) {
      Plans damaged = subject.plans;
      const Command *wait = find(damaged[0], CommandKind::WaitEvent, k);
      if (!wait)
        break;
      const bool isBeforeGroup = wait[1].kind == CommandKind::Group;
      erase(damaged[0], wait);
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
