//===- tests/hosts/plan_test.cpp - transfers within and between hosts, as commands ------------===//

#include "runtime/plan/specialize.h"
#include "tests/hosts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

using testing::HasSubstr;

constexpr const char *kRing = R"(program @ring mesh [0 .. 4) of 2 (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles get %all
  %out = select %all[0]
  %in = select %all[1]
  set %out, %A
  %s = p2p send %out to (rank + 1) mod 4 via %h
  %r = p2p recv %in from (rank - 1) mod 4 via %h
  wait %r
  set %C, %in
  wait %s
}
)";

TEST(HostsPlan, MakesAMessageOfWhatLeavesTheHost) {
  const Planned ring = planned(kRing);
  EXPECT_EQ(commandsOf(ring, 0), "main       copy       %all[0 .. 16) <- %A[0 .. 16)\n"
                                 "main       signal     rank 1, endpoint 0\n"
                                 "main       group      recv %all[16 .. 32) from rank 3\n"
                                 "main       copy       %C[0 .. 16) <- %all[16 .. 32)\n"
                                 "main       await      flag 0 from rank 1\n");
  EXPECT_EQ(commandsOf(ring, 1), "main       copy       %all[0 .. 16) <- %A[0 .. 16)\n"
                                 "main       group      send %all[0 .. 16) to rank 2\n"
                                 "main       await      flag 0 from rank 0\n"
                                 "main       copy       %all[16 .. 32) <- rank 0's side\n"
                                 "main       signal     rank 0, endpoint 0\n"
                                 "main       copy       %C[0 .. 16) <- %all[16 .. 32)\n");
  EXPECT_THAT(str(ring.plans[3]), HasSubstr("plan @ring rank 3 of 4, host 1 of 2\n"));
}

TEST(HostsPlan, IsAsBeforeOnOneHost) {
  std::string text = kRing;
  text.replace(text.find(" of 2"), 5, " of 4");
  const Planned ring = planned(text);
  for (const Plan &plan : ring.plans)
    EXPECT_TRUE(plan.groups.empty());
  EXPECT_THAT(str(ring.plans[0]), HasSubstr("plan @ring rank 0 of 4\n"));
}

/// Transfers that are posted together are issued in three parts: signals, the group of messages,
/// and the waits for ranks on the same host. This does not depend on the order of the nodes or on
/// whether they are in a `group`.
TEST(HostsPlan, IssuesWhatIsPostedTogetherInThreeParts) {
  const std::string before = R"(program @p mesh [0 .. 4) of 2 (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[4, 4]
  %h = share_mem_handles get %all
  %mine = select %all[rank]
  %a = select %all[rank xor 1]
  %b = select %all[rank xor 2]
  set %mine, %A
)";
  const std::string posts = R"(  %r1 = p2p recv %a from rank xor 1 via %h
  %r2 = p2p recv %b from rank xor 2 via %h
  %s2 = p2p send %mine to rank xor 2 via %h
  %s1 = p2p send %mine to rank xor 1 via %h
)";
  const std::string after = R"(  wait %r1
  wait %r2
  wait %s1
  wait %s2
  set %C, %b
}
)";
  for (const std::string &between : {posts, "  group {\n" + posts + "  }\n"}) {
    const Planned made = planned(before + between + after);
    EXPECT_EQ(commandsOf(made, 0),
              "main       copy       %all[0 .. 16) <- %A[0 .. 16)\n"
              "main       signal     rank 1, endpoint 1\n"
              "main       group      recv %all[32 .. 48) from rank 2, send %all[0 .. 16) to "
              "rank 2\n"
              "main       await      flag 0 from rank 1\n"
              "main       copy       %all[16 .. 32) <- rank 1's side\n"
              "main       signal     rank 1, endpoint 0\n"
              "main       await      flag 1 from rank 1\n"
              "main       copy       %C[0 .. 16) <- %all[32 .. 48)\n");
    const Result<CheckReport> report = check(made.plans, nullptr, {.queues = 1});
    EXPECT_TRUE(report.isOk() && !report->violation) << str(*report);
  }
}

TEST(HostsPlan, KeepsACollectiveWholeThatLeavesTheHost) {
  const Planned made = planned(R"(program @p mesh [0 .. 4) of 2 (%A: f32[4]) -> (%C: f32[8]) {
  %c = collective allgather %C, %A team [0, 1]
  wait %c
  %d = collective allgather %C, %A team [0, 2]
  wait %d
}
)");
  EXPECT_THAT(commandsOf(made, 0), HasSubstr("<- rank 1's side"));
  EXPECT_THAT(commandsOf(made, 0), HasSubstr("collective allgather %C[0 .. 32) <- %A[0 .. 16), "
                                             "team [0, 2]"));
  EXPECT_EQ(made.plans[0].collectives.size(), 1u);
  EXPECT_TRUE(made.plans[1].collectives.empty());
}

TEST(HostsPlan, RefusesToStoreOnAnotherHost) {
  auto source = parseSource("s.braid", R"(program @p mesh [0 .. 2) of 1
    (%A: f32[4, 3], %B: f32[3, 5]) -> (%C: f32[4, 5]) {
  %part = allocate symmetric f32[4, 5]
  %h = share_mem_handles put %part
  %r = p2p recv %part from (rank + 1) mod 2 via %h
  %s = p2p send matmul %A, %B : f32[4, 5] to (rank + 1) mod 2 via %h
  wait %r
  set %C, %part
  wait %s
}
)");
  const Result<Compiled> compiled = compile(*source, {});
  ASSERT_TRUE(compiled.isOk()) << source->diags.str();
  const Result<std::vector<Plan>> plans = makePlans(*compiled);
  ASSERT_FALSE(plans.isOk());
  EXPECT_EQ(plans.status().code(), StatusCode::Unsupported);
  EXPECT_EQ(plans.status().message(),
            "s.braid:6:3: sending a computed value requires memory that peers can access, but "
            "ranks 0 and 1 are on different hosts");
}

} // namespace
} // namespace braid::test
