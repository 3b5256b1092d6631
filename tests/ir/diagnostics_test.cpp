//===- tests/ir/diagnostics_test.cpp - collecting and printing messages -----------------------===//

#include "ir/diagnostics.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Diagnostics, PrintsPlaceMessageLineAndCaret) {
  Diagnostics diags("ag.braid", "first line\n  second line\n");
  bool failed = diags.error({2, 3}) << "expected " << 1 << " word, got '"
                                    << "two"
                                    << "'";
  EXPECT_FALSE(failed);
  diags.warning({1, 7}).note({1, 1}, "it begins here") << "strange";
  EXPECT_EQ(diags.str(), "ag.braid:2:3: error: expected 1 word, got 'two'\n"
                         "  second line\n"
                         "  ^\n"
                         "ag.braid:1:7: warning: strange\n"
                         "first line\n"
                         "      ^\n"
                         "ag.braid:1:1: note: it begins here\n"
                         "first line\n"
                         "^\n");
  EXPECT_TRUE(diags.hasErrors());
  EXPECT_EQ(diags.errorCount(), 1u);
}

TEST(Diagnostics, WarningsAreNoErrors) {
  Diagnostics diags("f", "text");
  diags.warning({1, 1}) << "careful";
  EXPECT_FALSE(diags.hasErrors());
}

// An input may contain a number with a million digits, which messages must not repeat.
TEST(Diagnostics, LongNamesAndNumbersAreQuotedByTheirBeginning) {
  const std::string digits(1000000, '7'), start(60, '7');
  Diagnostics diags("f", "x");
  diags.error({1, 1}).note({1, 1}, "not " + digits) << "got '%" << digits << "', " << digits;
  EXPECT_EQ(diags.str(), "f:1:1: error: got '%" + start + "... (1000000 characters)', " + start +
                             "... (1000000 characters)\nx\n^\nf:1:1: note: not " + start +
                             "... (1000000 characters)\nx\n^\n");
  const std::string hundred(100, 'a');
  Diagnostics whole("f", "");
  whole.error({}) << hundred;
  EXPECT_EQ(whole.str(), "f: error: " + hundred + "\n");
  EXPECT_EQ(didYouMean(digits, {digits.substr(1)}), "");
}

TEST(Diagnostics, UnknownPlaceShowsTheFileOnly) {
  Diagnostics diags;
  diags.error({}) << "made by a builder";
  EXPECT_EQ(diags.str(), "<input>: error: made by a builder\n");
  EXPECT_EQ(diags.place({3, 4}), "<input>:3:4");
}

TEST(Diagnostics, TheEndOfTheTextHasNoLineToShow) {
  Diagnostics diags("f", "abc\n");
  diags.error({2, 1}) << "expected more";
  diags.error({1, 99}) << "behind the end of a line";
  EXPECT_EQ(diags.str(), "f:2:1: error: expected more\n"
                         "f:1:99: error: behind the end of a line\n"
                         "abc\n"
                         "   ^\n");
}

TEST(Diagnostics, CaretsStandUnderTheirCharacter) {
  Diagnostics tabs("f", "\tx = y\r\n");
  tabs.error({1, 6}) << "here";
  EXPECT_EQ(tabs.str(), "f:1:6: error: here\n x = y\n     ^\n");
  Diagnostics umlauts("f", "// \xC3\xA4\xC3\xB6 x");
  umlauts.error({1, 9}) << "here";
  EXPECT_EQ(umlauts.str(), "f:1:9: error: here\n// \xC3\xA4\xC3\xB6 x\n      ^\n");
}

TEST(Diagnostics, BytesThatATerminalWouldActOnAreReplaced) {
  Diagnostics diags("f", "a\x1B[31m\xFF\x7F");
  diags.error({1, 2}) << "here";
  EXPECT_EQ(diags.str(), "f:1:2: error: here\na?[31m??\n ^\n");
}

TEST(Diagnostics, OfALongLineThePartAroundTheCaretIsShown) {
  Diagnostics diags("f", std::string(500, 'a') + "X" + std::string(500, 'b'));
  diags.error({1, 501}) << "here";
  EXPECT_EQ(diags.str(), "f:1:501: error: here\n" + std::string(80, 'a') + "X" +
                             std::string(79, 'b') + "\n" + std::string(80, ' ') + "^\n");
}

TEST(Diagnostics, StopsAfterAHundredErrors) {
  Diagnostics diags("f", "");
  for (int i = 0; i < 100; ++i)
    diags.error({}) << "error " << i;
  EXPECT_FALSE(diags.isFull());
  diags.error({}).note({}, "lost") << "one too many";
  diags.warning({}) << "lost, too";
  diags.error({}) << "and this";
  EXPECT_TRUE(diags.isFull());
  ASSERT_EQ(diags.all().size(), 101u);
  EXPECT_EQ(diags.all()[99].message, "error 99");
  EXPECT_EQ(diags.all()[100].message, "too many errors; further errors are not shown");
  EXPECT_TRUE(diags.all()[100].notes.empty());
}

TEST(NearestName, FindsTypingSlips) {
  std::vector<std::string> names = {"select", "set", "synchronize", "wait"};
  EXPECT_EQ(nearestName("slect", names), "select");
  EXPECT_EQ(nearestName("synchronise", names), "synchronize");
  EXPECT_EQ(nearestName("WAIT", names), "wait");
  EXPECT_EQ(nearestName("set", names), "set");
  EXPECT_EQ(nearestName("launch", names), "");
  EXPECT_EQ(nearestName("", names), "");
  EXPECT_EQ(nearestName("set", {}), "");
}

TEST(NearestName, OneLetterForAnotherIsNoSlip) {
  EXPECT_EQ(nearestName("A", {"B", "C"}), "");
  EXPECT_EQ(nearestName("a", {"B", "A"}), "A");
}

TEST(NearestName, TheFirstOfEqualsWins) {
  EXPECT_EQ(nearestName("bat", {"cat", "rat"}), "cat");
  EXPECT_EQ(nearestName("bat", {"rat", "cat"}), "rat");
}

TEST(NearestName, DidYouMean) {
  EXPECT_EQ(didYouMean("wiat", {"wait"}), " (did you mean 'wait'?)");
  EXPECT_EQ(didYouMean("launch", {"wait"}), "");
}

} // namespace
} // namespace braid
