#include "tests/view/pages.h"

#include <gmock/gmock.h>

namespace braid::view {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Every command refers to the line that it implements.
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

/// Pages escape all texts, because records and traces come from untrusted files.
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

} // namespace
} // namespace braid::view
