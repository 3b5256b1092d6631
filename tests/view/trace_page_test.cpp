#include "tests/view/pages.h"

#include "runtime/execute/trace.h"

#include "llvm/Support/raw_ostream.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

/// Returns a trace in which the commands of each rank are executed one after another. A command
/// takes `ns` times the number of its run.
std::string traceOf(const PrintedProgram &program, int64_t ns, uint32_t runs) {
  std::vector<RankTrace> traces;
  for (const Plan &plan : program.plans) {
    RankTrace trace{&plan, {}};
    int64_t at = 0;
    for (uint32_t run = 1; run <= runs; ++run)
      for (uint32_t i = 0; i < plan.commands.size(); ++i) {
        braid::Span span{};
        span.tag.run = run;
        span.tag.command = i;
        span.stream = plan.commands[i].stream;
        span.beginNs = at;
        span.endNs = at += ns * run;
        trace.spans.push_back(span);
      }
    traces.push_back(std::move(trace));
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  writeTrace(traces, os);
  return text;
}

TEST(TracePage, ShowsTheLastRun) {
  const PrintedProgram program = test::printed(test::kGather, 3);
  const Result<Page> page = measuredPage("run.json", traceOf(program, 1000, 2));
  ASSERT_TRUE(page.isOk()) << page.status().message();
  EXPECT_EQ(page->timings[0].total, 2 * static_cast<double>(program.plans[0].commands.size()));
  EXPECT_EQ(page->timings[0].spans[1][3].begin, 6) << "from the run's beginning";
}

TEST(TracePage, LiesOverThePrediction) {
  const PrintedProgram program = test::printed(test::kGather, 3);
  const Result<Page> measured = measuredPage("run.json", traceOf(program, 1000, 1));
  ASSERT_TRUE(measured.isOk()) << measured.status().message();
  const Result<Page> both = layOver(*measured, test::predicted(program));
  ASSERT_TRUE(both.isOk()) << both.status().message();
  ASSERT_EQ(both->timings.size(), 2u);
  EXPECT_EQ(both->timings[0].name, "measured");
  const Result<Page> other = layOver(*measured, test::predicted(test::printed(test::kGather, 4)));
  ASSERT_FALSE(other.isOk());
  EXPECT_THAT(other.status().message(),
              HasSubstr("expected the trace of this program: 'program @gather_pairwise"));
}

TEST(TracePage, ComparesARunThatTookNoTime) {
  const PrintedProgram program = test::printed(test::kGather, 2);
  const Result<Page> measured = measuredPage("run.json", traceOf(program, 0, 1));
  ASSERT_TRUE(measured.isOk()) << measured.status().message();
  const Result<Page> both = layOver(*measured, test::predicted(program));
  ASSERT_TRUE(both.isOk()) << both.status().message();
  EXPECT_THAT(both->findings[0], MatchesRegex("The run took 0.0 µs; the prediction was .*[.]"));
}

/// The program in a trace may contain a comment with terminal control characters.
TEST(TracePage, ShowsNothingThatATerminalObeys) {
  std::string text = traceOf(test::printed(test::kGather, 2), 1000, 1);
  text.insert(text.find("\\n", text.find("\"program\":")), "//\\u001b[2J");
  const Result<Page> measured = measuredPage("run.json", text);
  ASSERT_TRUE(measured.isOk()) << measured.status().message();
  const Result<Page> both = layOver(*measured, test::predicted(test::printed(test::kGather, 2)));
  ASSERT_FALSE(both.isOk());
  EXPECT_THAT(both.status().message(), HasSubstr("//\\x1b[2J'"));
}

/// Each message contains the file name and states what was expected.
TEST(TracePage, RefusesWhatIsNoTrace) {
  const std::string good = traceOf(test::printed(test::kGather, 2), 1000, 1);
  auto with = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, const char *> cases[] = {
      {"", "run.json:1:1: expected JSON"},
      {"{\n", "run.json:2:1: expected JSON"},
      {with("\"dur\":1.000", "\"dur\":1e999"), "]: expected pid, ts, dur, and args"},
      {"[]", "expected a traceEvents list"},
      {"{\"traceEvents\":[]}", "expected otherData to contain the program"},
      {with("program @", "programme @"), "run.json: otherData.program:1:1: error: expected"},
      {with("\"ph\":\"X\",\"pid\":0", "\"ph\":\"X\",\"pid\":7"), "expected a rank below 2, got 7"},
      {with("\"run\":1,\"command\":0", "\"run\":1,\"command\":99999"),
       "expected command numbers for @gather_pairwise to be below"},
      {with("\"run\":1,\"command\":0", "\"run\":-1,\"command\":0"),
       "]: expected pid, ts, dur, and args"},
      {with("\"dur\":1.000", "\"dur\":-1.000"), "]: expected pid, ts, dur, and args"},
      {with("\"dur\":1.000", "\"dur\":1e300"), "]: expected pid, ts, dur, and args"},
      {with("\"run\":1,\"command\":1", "\"run\":1,\"command\":0"),
       "]: expected each command once per run, but command 0 of rank 0 appears more than once in "
       "run 1"},
  };
  for (const auto &[text, expected] : cases) {
    const Result<Page> read = measuredPage("run.json", text);
    ASSERT_FALSE(read.isOk()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::BadInput);
    EXPECT_THAT(read.status().message(), HasSubstr(expected));
  }
}

} // namespace
} // namespace braid::view
