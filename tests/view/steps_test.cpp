#include "tests/view/pages.h"

#include "api/compile/plans.h"

#include <gmock/gmock.h>

#include <cmath>

namespace braid::view {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

/// A program that deadlocks: both ranks receive before they send, so each waits for the other.
constexpr const char *kCircle = R"(program @circle mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles get %all
  %mine = select %all[0]
  %theirs = select %all[1]
  %r = p2p recv %theirs from (rank + 1) mod 2 via %h
  wait %r
  %s = p2p send %mine to (rank + 1) mod 2 via %h
  wait %s
  set %C, %theirs
})";

Page checked(const std::string &text, int64_t ranks) {
  const auto source = parseSource("t.braid", text);
  CompileOptions options;
  options.ranks = ranks;
  Result<Compiled> compiled = compile(*source, options);
  EXPECT_TRUE(compiled.isOk()) << source->diags.str();
  Result<PrintedProgram> program = printAgain(*compiled);
  EXPECT_TRUE(program.isOk()) << program.status().message();
  Result<CheckReport> report = checkProgram(program->compiled, {});
  EXPECT_TRUE(report.isOk()) << report.status().message();
  return counterexamplePage(*program, *report);
}

TEST(Steps, FollowWhatCommandsWaitFor) {
  const PrintedProgram program = test::printed(test::kGather, 4);
  const Page page = pageOf(program, program.plans, /*runs=*/2);
  size_t causes = 0;
  for (uint32_t queues : {0u, 1u, 2u}) {
    const Timing timing = stepsOf(page, queues);
    for (size_t rank = 0; rank < page.ranks.size(); ++rank)
      for (size_t i = 0; i < page.ranks[rank].commands.size(); ++i) {
        const Span &span = timing.spans[rank][i];
        ASSERT_FALSE(std::isnan(span.end)) << "with " << queues << " queues";
        if (const CommandRef cause = page.ranks[rank].commands[i].cause; cause.isValid()) {
          ++causes;
          EXPECT_GE(span.end - 1, timing.spans[static_cast<size_t>(cause.rank)][cause.command].end);
        }
      }
  }
  EXPECT_GT(causes, 0u);
}

TEST(Steps, EndWhereNobodyGoesOn) {
  const Page page = checked(kCircle, 2);
  EXPECT_TRUE(page.isFailure);
  EXPECT_TRUE(page.areMarksLinked);
  ASSERT_EQ(page.marks.size(), 2u);
  EXPECT_THAT(page.findings.front(), HasSubstr("Deadlock: "));
  for (const Mark &mark : page.marks) {
    ASSERT_TRUE(mark.command.isValid());
    const Span &span =
        page.timings.front().spans[static_cast<size_t>(mark.command.rank)][mark.command.command];
    EXPECT_FALSE(std::isnan(span.begin)) << "it is reached";
    EXPECT_TRUE(std::isnan(span.end)) << "and never ends";
    EXPECT_EQ(page.text[page.ranks[static_cast<size_t>(mark.command.rank)]
                            .commands[mark.command.command]
                            .line -
                        1],
              "  %r = p2p recv %theirs from (rank + 1) mod 2 via %h");
  }
}

TEST(Steps, SayWhichOrderDoesHarm) {
  const Page page = checked(R"(program @racy mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  set_current_stream stream(0)
  set %C, %A
})",
                            2);
  EXPECT_TRUE(page.areMarksLinked);
  EXPECT_EQ(page.findings[1],
            "If 2 comes before 1, 2 reads the data that 1 has not replaced yet, "
            "which is stale; if 1 comes before 2, 2 reads the data that 1 has written.");
}

/// A transfer without a partner has no command, so the mark refers to the line of the transfer.
TEST(Steps, PointAtTheLineOfATransfer) {
  const Page page = checked(R"(program @alone mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles get %all
  %mine = select %all[0]
  %s = p2p send %mine to (rank + 1) mod 2 via %h
  wait %s
  set %C, %A
})",
                            2);
  EXPECT_THAT(page.findings.front(), HasSubstr("Transfers: "));
  EXPECT_FALSE(page.areMarksLinked);
  ASSERT_FALSE(page.marks.empty());
  EXPECT_FALSE(page.marks[0].command.isValid());
  ASSERT_GT(page.marks[0].line, 0u);
  EXPECT_THAT(page.text[page.marks[0].line - 1], HasSubstr("p2p send %mine"));
  Violation two{CheckRule::Transfers, "", {{}, {}}, {}};
  EXPECT_FALSE(two.isUnordered());
  two.rule = CheckRule::Race;
  EXPECT_TRUE(two.isUnordered());
}

TEST(Steps, SayWhatWasProved) {
  const Page page = checked(test::kGather, 3);
  EXPECT_FALSE(page.isFailure);
  EXPECT_TRUE(page.marks.empty());
  EXPECT_THAT(page.findings.front(), HasSubstr("Safe on 3 ranks"));
  EXPECT_THAT(page.findings.front(), EndsWith("from the correct blocks of the same run."));
  EXPECT_THAT(toHtml(page), HasSubstr("commands\n  transfers  "));
}

} // namespace
} // namespace braid::view
