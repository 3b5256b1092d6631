//===- tests/lowering/pass_list_test.cpp - lists of passes ------------------------------------===//

#include "tests/lowering/support.h"
#include "tests/support/configured.h"

#include "llvm/ADT/Twine.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

/// The messages about a list, "column: text", one a line; "" if it is accepted.
std::string messagesAbout(const std::string &list) {
  Diagnostics diags("--passes", list);
  std::vector<PassSpec> specs = parsePassList(diags);
  std::optional<PassList> resolved = resolvePasses(specs, Configurations(), diags);
  EXPECT_EQ(resolved.has_value(), !diags.hasErrors());
  std::string text;
  for (const Diagnostic &diagnostic : diags.all())
    text += std::to_string(diagnostic.location.column) + ": " + diagnostic.message + "\n";
  return text;
}

TEST(PassList, HoldsAllPassesByDefault) {
  PassList list = defaultPasses(test::configured("streams=7"));
  EXPECT_EQ(list.passes.size(), allPasses().size());
  EXPECT_EQ(list.options.all.streams(), 7);
}

TEST(PassList, DescribesEveryPass) {
  for (const Pass &pass : allPasses()) {
    EXPECT_EQ(findPass(pass.name), &pass);
    EXPECT_FALSE(pass.summary.empty()) << pass.name.str();
    EXPECT_FALSE(pass.summary.contains('\n')) << pass.name.str();
  }
  EXPECT_EQ(findPass("sink-wait"), nullptr);
  EXPECT_EQ(didYouMeanPass("sink-wait"), " (did you mean 'sink-waits'?)");
}

TEST(PassList, OptionsGoBeforeThoseGiven) {
  Diagnostics diags("--passes", "find-moves,form-pipelines{order=ring},insert-transfers"
                                "{protocol=put},peel-own-step,split-chunks{chunks=16 tail-split=2},"
                                "assign-streams{streams=2},hoist-syncs,merge-gemms{wave-rows=7}");
  auto list = resolvePasses(parsePassList(diags), test::configured("streams=3,C=coalesced"), diags);
  ASSERT_TRUE(list) << diags.str();
  EXPECT_EQ(list->options.all.str(), "order=ring;protocol=put;chunks=16;tail-split=2;wave-rows=7;"
                                     "streams=2");
  EXPECT_EQ(list->options.stages.front().config.order(), schedule::Order::Ring);
}

TEST(PassList, LeavesOutPasses) {
  EXPECT_EQ(messagesAbout("find-moves,form-pipelines,insert-transfers,assign-streams"), "");
  EXPECT_EQ(messagesAbout("find-moves,simplify"), "");
}

TEST(PassList, RefusesAnEmptyList) {
  EXPECT_EQ(messagesAbout(""), "0: expected at least one pass, got an empty list\n");
}

TEST(PassList, RefusesUnknownNames) {
  EXPECT_EQ(messagesAbout("find-move"),
            "1: unknown pass 'find-move' (did you mean 'find-moves'?)\n");
  EXPECT_EQ(messagesAbout("find-moves,xyzzy"), "12: unknown pass 'xyzzy'\n");
}

TEST(PassList, RefusesUnknownOptionsAndValues) {
  EXPECT_EQ(messagesAbout("find-moves{deep=1}"),
            "12: pass 'find-moves' takes no option, got 'deep'\n");
  EXPECT_EQ(messagesAbout("find-moves,form-pipelines{ordr=ring}"),
            "27: pass 'form-pipelines' takes the option 'order' or 'reduction' or 'sums', got "
            "'ordr'\n");
  EXPECT_EQ(messagesAbout("find-moves,form-pipelines{order=rign}"),
            "27: expected 'order' of 'form-pipelines' to be one of shift, xor, ring, hierarchical, "
            "got 'rign' "
            "(did you mean 'ring'?)\n");
  std::string prefix = "find-moves,form-pipelines,insert-transfers";
  EXPECT_EQ(messagesAbout(prefix + "{protocol=push}"),
            "44: expected 'protocol' of 'insert-transfers' to be one of get, put, got 'push' "
            "(did you mean 'put'?)\n");
  for (std::string value : {"0", "two", "1025"})
    EXPECT_EQ(messagesAbout(prefix + ",assign-streams{streams=" + value + "}"),
              "59: expected 'streams' of 'assign-streams' to be an integer from 1 to 1024, got '" +
                  value + "'\n");
  for (std::string knob : {"chunks", "tail-split"})
    for (std::string value : {"0", "-2", "two", "99999999999999999999"})
      EXPECT_EQ(messagesAbout(prefix + ",peel-own-step,split-chunks{" + knob + "=" + value + "}"),
                "71: expected '" + knob +
                    "' of 'split-chunks' to be an integer of 64 bits, at "
                    "least 1, got '" +
                    value + "'\n");
  EXPECT_EQ(messagesAbout(prefix + ",peel-own-step,split-chunks{tapir=2}"),
            "71: pass 'split-chunks' takes the option 'chunks' or 'tail-split', got 'tapir'\n");
}

TEST(PassList, RefusesWavesThatAreNone) {
  const std::string prefix = "find-moves,form-pipelines,insert-transfers,peel-own-step,"
                             "assign-streams,hoist-syncs,merge-gemms";
  for (std::string value : {"-1", "many"})
    EXPECT_EQ(
        messagesAbout(prefix + "{wave-rows=" + value + "}"),
        std::to_string(prefix.size() + 2) +
            ": expected 'wave-rows' of 'merge-gemms' to be an integer of 64 bits, at least 0, "
            "got '" +
            value + "'\n");
}

TEST(PassList, RefusesPassesBeforeWhatTheyNeed) {
  EXPECT_EQ(messagesAbout("form-pipelines"),
            "1: pass 'form-pipelines' needs 'find-moves' before it\n");
  EXPECT_EQ(messagesAbout("find-moves,insert-transfers"),
            "12: pass 'insert-transfers' needs 'form-pipelines' before it\n");
  std::string prefix = "find-moves,form-pipelines,";
  EXPECT_EQ(messagesAbout(prefix + "peel-own-step"),
            "27: pass 'peel-own-step' needs 'insert-transfers' before it\n");
  EXPECT_EQ(messagesAbout(prefix + "assign-streams"),
            "27: pass 'assign-streams' needs 'insert-transfers' before it\n");
  EXPECT_EQ(messagesAbout(prefix + "sink-waits"),
            "27: pass 'sink-waits' needs 'insert-transfers' before it\n");
  EXPECT_EQ(messagesAbout(prefix + "insert-transfers,split-chunks"),
            "44: pass 'split-chunks' needs 'peel-own-step' before it\n");
  EXPECT_EQ(messagesAbout(prefix + "insert-transfers,hoist-syncs"),
            "44: pass 'hoist-syncs' needs 'assign-streams' before it\n");
  EXPECT_EQ(messagesAbout("simplify"), "1: pass 'simplify' needs 'find-moves' before it\n");
}

TEST(PassList, RefusesPassesThatComeLateOrTwice) {
  EXPECT_EQ(messagesAbout("find-moves,find-moves"), "12: pass 'find-moves' can run only once\n");
  EXPECT_EQ(messagesAbout("find-moves,form-pipelines,simplify,insert-transfers"),
            "36: pass 'insert-transfers' has to run before 'simplify'\n");
}

TEST(PassList, ReportsEverything) {
  EXPECT_EQ(messagesAbout("find-moves{x=1},form-pipelnes,simplify{y=2}"),
            "12: pass 'find-moves' takes no option, got 'x'\n"
            "17: unknown pass 'form-pipelnes' (did you mean 'form-pipelines'?)\n"
            "40: pass 'simplify' takes no option, got 'y'\n");
}

} // namespace
} // namespace braid
