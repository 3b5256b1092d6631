#include "tests/view/pages.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Every command is of the line that it comes from.
TEST(Page, HasTheLineOfEveryCommand) {
  const PrintedProgram program = test::printed(test::kGather, 4);
  const Page page = test::predicted(program);
  ASSERT_EQ(page.ranks.size(), 4u);
  for (size_t rank = 0; rank < page.ranks.size(); ++rank)
    for (size_t i = 0; i < page.ranks[rank].commands.size(); ++i) {
      const Command &command = page.ranks[rank].commands[i];
      const Plan &plan = program.plans[rank];
      ASSERT_NE(command.line, 0u);
      const std::string node = plan.sites[plan.origins[plan.commands[i].origin].site].text;
      EXPECT_THAT(page.text[command.line - 1], HasSubstr(node));
    }
}

TEST(Page, IsSmallAndNeedsNothingElse) {
  const std::string html = toHtml(test::predicted(test::printed(test::kGather, 4)));
  EXPECT_LT(html.size(), 300u << 10);
  EXPECT_THAT(html, HasSubstr("<!DOCTYPE html>"));
  for (const char *outside : {"http:", "https:", "src=", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
}

/// Texts of records and traces come from files that anybody may have written.
TEST(Page, ShowsTextsAndDoesNotRunThem) {
  Page page;
  page.title = "</title><script>alert(1)</script>";
  page.findings = {"{{data}}<img src=x onerror=alert(1)>\xff"};
  page.text = {"</script><script>alert(1)</script>", "\x1b[2J"};
  page.timings.push_back({.name = "<b>"});
  const std::string html = toHtml(page);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("{{data}}")) << "what a text says is not filled in";
  EXPECT_THAT(html, Not(HasSubstr("\x1b")));
}

Page ofEqualRanks(size_t count) {
  Page page;
  Timing timing{.name = "made"};
  timing.total = 100;
  for (size_t rank = 0; rank < count; ++rank) {
    Rank &each = page.ranks.emplace_back();
    each.numbers = {static_cast<int64_t>(rank)};
    each.streams = {"main"};
    const CommandRef before = {static_cast<int32_t>((rank + count - 1) % count), 0};
    each.commands = {{.kind = Kind::Signal}, {.kind = Kind::Await, .cause = before}};
    timing.spans.push_back({{0, 10}, {10, 20}});
  }
  page.timings.push_back(std::move(timing));
  return page;
}

TEST(Page, JoinsRanksThatDoTheSame) {
  Page page = ofEqualRanks(65);
  page.timings[0].spans[7][1].end = 90;
  page.marks.push_back({{9, 1}, "here"});
  joinAlikeRanks(page);
  ASSERT_EQ(page.ranks.size(), 2u);
  EXPECT_EQ(page.ranks[0].numbers.size(), 64u);
  EXPECT_EQ(page.ranks[1].numbers, std::vector<int64_t>{7});
  EXPECT_EQ(page.timings[0].spans.size(), 2u);
  EXPECT_EQ(page.ranks[1].commands[1].cause, (CommandRef{0, 0}));
  EXPECT_EQ(page.marks[0].command, (CommandRef{0, 1}));
  Page few = ofEqualRanks(64);
  joinAlikeRanks(few);
  EXPECT_EQ(few.ranks.size(), 64u);
}

TEST(Page, JoinsNoRanksThatMoveOtherBytesOrWaitForNothing) {
  Page page = ofEqualRanks(66);
  page.ranks[7].commands[0].bytes = 8;
  page.ranks[8].commands[0].run = 2;
  page.ranks[9].commands[1].cause = {};
  joinAlikeRanks(page);
  EXPECT_EQ(page.ranks.size(), 4u);
}

} // namespace
} // namespace braid::view
