//===- tests/ir/pass_list_test.cpp - the text of `--passes` -----------------------------------===//

#include "tests/ir/case_file.h"

namespace braid::test {
namespace {

std::string describe(const std::vector<PassSpec> &passes) {
  std::string text;
  for (const PassSpec &pass : passes) {
    text += pass.name + "@" + std::to_string(pass.location.column);
    for (const PassSpec::Option &option : pass.options)
      text += " " + option.name + "=" + option.value + "@" + std::to_string(option.location.column);
    text += ";";
  }
  return text;
}

TEST(PassList, NamesOptionsAndPlaces) {
  Diagnostics diags("--passes", "find-moves, split-chunks{chunks=8 last_=a.b-c},sink-waits{}");
  EXPECT_EQ(describe(parsePassList(diags)),
            "find-moves@1;split-chunks@13 chunks=8@26 last_=a.b-c@35;sink-waits@48;");
  EXPECT_FALSE(diags.hasErrors());
}

TEST(PassList, NothingIsNoPass) {
  Diagnostics diags("--passes", "  ");
  EXPECT_TRUE(parsePassList(diags).empty());
  EXPECT_FALSE(diags.hasErrors());
}

TEST(PassList, Messages) {
  struct {
    const char *text, *expected;
  } rows[] = {
      {",a", "1:1: error: expected the name of a pass, got ','\n"},
      {"a,", "1:3: error: expected the name of a pass, got the end of the list\n"},
      {"a b", "1:3: error: expected ',' or '{', got 'b'\n"},
      {"a{", "1:3: error: expected an option or '}', got the end of the list\n"},
      {"a{x", "1:4: error: expected '=', got the end of the list\n"},
      {"a{x=", "1:5: error: expected a value, got the end of the list\n"},
      {"a{x=}", "1:5: error: expected a value, got '}'\n"},
      {"a{x=1,y=2}", "1:6: error: expected an option or '}', got ','\n"},
      {"a}\n", "1:2: error: expected ',' or '{', got '}'\n"},
      {"a,\n\xC3", "2:1: error: expected the name of a pass, got a strange byte\n"},
  };
  for (const auto &row : rows) {
    Diagnostics diags("--passes", row.text);
    parsePassList(diags);
    EXPECT_EQ(brief(diags), row.expected) << row.text;
  }
}

} // namespace
} // namespace braid::test
