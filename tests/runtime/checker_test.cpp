//===- tests/runtime/checker_test.cpp - each rule of the checker, satisfied and violated ------===//
//
// Every incorrect program is a safe program with one or two changed lines, so that the safe version
// is also tested. tests/property/handmade_test.cpp compares the verdicts with executions.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/plan/spell_out.h"
#include "tests/support/checked.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace braid {
namespace {

using testing::HasSubstr;
using testing::Not;

using namespace test;

/// Two ranks gather A block by block. The line numbers below refer to this text.
constexpr const char *kGather = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 4, 4]
  %B = input f32[4, 4]
  %C = matmul %A, %B : f32[Stream{D}, 4, 4]
  output %C
}
program @gather implements @f mesh [0 .. 2)
    (%A: f32[1, 4, 4], %B: f32[4, 4]) -> (%C: f32[2, 4, 4]) {
  %all = allocate symmetric f32[2, 4, 4]
  %h = share_mem_handles get %all
  %main = get_current_stream
  %mine = select %all[rank]
  %theirs = select %all[1 - rank]
  %own = select %A[0]
  %C_own = select %C[rank]
  %C_peer = select %C[1 - rank]
  set %mine, %own
  set_current_stream stream(0)
  synchronize %main
  %s = p2p send %mine to 1 - rank via %h
  %r = p2p recv %theirs from 1 - rank via %h
  matmul %C_own, %mine, %B
  wait %r
  matmul %C_peer, %theirs, %B
  wait %s
  set_current_stream %main
  synchronize stream(0)
}
)";

/// Returns the program with the put protocol, in which the sender writes the block.
std::string put() {
  return edited(kGather, {{"handles get", "handles put"},
                          {"  %s = p2p send %mine to 1 - rank via %h\n", ""},
                          {"  matmul %C_own,", "  %s = p2p send %mine to 1 - rank via %h\n"
                                               "  matmul %C_own,"}});
}

TEST(Checker, SaysWhatItProved) {
  EXPECT_EQ(
      verdict(kGather),
      "safe on 2 ranks, 3 successive runs, 84 commands\n"
      "  transfers  2 per run: each send matches one receive in size, type and order\n"
      "  deadlock   none, with 1 hardware queue per rank, and therefore with any number\n"
      "  races      none: 84 memory accesses, every conflicting pair ordered\n"
      "  result     every output is computed once, from the correct blocks of the same run\n");
  EXPECT_EQ(
      verdict(put(), {.queues = 2, .runs = 1}),
      "safe on 2 ranks, 1 successive run, 30 commands\n"
      "  transfers  2 per run: each send matches one receive in size, type and order\n"
      "  deadlock   none, with 2 hardware queues per rank\n"
      "  races      none: 34 memory accesses, every conflicting pair ordered\n"
      "  seams      not checked: finding races between successive runs requires at least 2 runs\n"
      "  result     every output is computed once, from the correct blocks of the same run\n");
}

TEST(Checker, ProgramWithoutDefinition) {
  std::string text = kGather;
  text = edited(text.substr(text.find("program")), {{" implements @f", ""}});
  EXPECT_THAT(verdict(text),
              HasSubstr("result     not checked: the program does not implement a fusion"));
  EXPECT_EQ(verdict(edited(text, {{"  set %mine, %own\n", ""}})),
            "unsafe (result): a command reads data that no command has written\n"
            "  rank 1, stream(0), run 1: copy of \"%r = p2p recv %theirs from 1 - rank via "
            "%h\" at t.braid:14:3\n"
            "  %all of rank 0, bytes [0 .. 64)\n");
}

TEST(Checker, SaysHowFarItIs) {
  for (bool eachRank : {true, false}) {
    std::vector<std::string> steps;
    std::map<std::string, size_t> told;
    CheckOptions options;
    options.eachRank = eachRank;
    options.progress = [&](const WorkProgress &now) {
      if (now.done == 0)
        steps.push_back(now.step);
      EXPECT_EQ(now.step, steps.back());
      EXPECT_LE(now.done, now.total);
      told[now.step] = now.done;
    };
    EXPECT_TRUE(isSafe(kGather, options));
    EXPECT_THAT(steps, testing::ElementsAre(
                           "making Plans", "listing transfers", "matching transfers",
                           "matching signals with flags", "matching commands with transfers",
                           "building the history", "executing", "listing memory accesses",
                           "finding races and early signals", "checking results"));
    EXPECT_EQ(told["making Plans"], 2);
    EXPECT_EQ(told["matching transfers"], 2);
    EXPECT_EQ(told["finding races and early signals"], eachRank ? 84 : 42);
  }
}

TEST(Checker, RefusesWhatDoesNotFitIntoMemory) {
  Checked made{parseSource("t.braid", kGather)};
  Result<Compiled> compiled = compile(*made.source, {});
  CheckOptions options;
  options.runs = 3000000000;
  Result<CheckReport> report = checkProgram(*compiled, options);
  EXPECT_EQ(report.status().code(), StatusCode::Unsupported);
  EXPECT_THAT(report.status().message(),
              HasSubstr("checking 3000000000 runs of 2 ranks takes about"));
}

//===- Transfers ------------------------------------------------------------------------------===//

/// Two endpoints refer to each other as peers but use different handles.
TEST(CheckerTransfers, SidesOfOtherHandles) {
  const std::string text =
      edited(kGather, {{"  %h = share_mem_handles get %all\n",
                        "  %h = share_mem_handles get %all\n  %spare = allocate symmetric f32[4]\n "
                        " %other = share_mem_handles get %spare\n"},
                       {"from 1 - rank via %h", "from 1 - rank via %other"}});
  EXPECT_EQ(verdict(text),
            "unsafe (transfers): no receive on rank 1 matches this send\n  rank 0: \"%s = p2p send "
            "%mine to 1 - rank via %h\" at t.braid:23:3\n  rank 1: \"%r = p2p recv %theirs from 1 "
            "- rank via %other\" at t.braid:24:3\n  rank 1 has a matching receive, but it "
            "uses different handles; both sides must use the same share_mem_handles\n");
}

TEST(CheckerTransfers, ReceiveThatNobodySends) {
  EXPECT_EQ(verdict(edited(kGather, {{"  %r = ", "  if rank == 1 {\n"
                                                 "    %t = p2p recv %theirs from 0 via %h\n"
                                                 "    wait %t\n  }\n  %r = "}})),
            "unsafe (transfers): no send on rank 0 matches this receive\n"
            "  rank 1: \"%r = p2p recv %theirs from 1 - rank via %h\" at t.braid:26:3\n"
            "  with these handles, rank 0 has 1 send for rank 1, but this is receive number 2\n");
}

TEST(CheckerTransfers, DifferentBytes) {
  EXPECT_EQ(verdict(edited(kGather, {{"  %r = p2p recv %theirs", "  %part = slice %theirs[0 .. 3]\n"
                                                                 "  %r = p2p recv %part"}})),
            "unsafe (transfers): a send of 64 bytes of f32 (get) does not match a receive of 48 "
            "bytes of f32 (get)\n"
            "  rank 0: \"%s = p2p send %mine to 1 - rank via %h\" at t.braid:21:3\n"
            "  rank 1: \"%r = p2p recv %part from 1 - rank via %h\" at t.braid:23:3\n");
}

/// The n-th send matches the n-th receive, so blocks are received in the order of the sends.
TEST(CheckerTransfers, OrderDecidesWhoMeets) {
  std::string halves = edited(
      kGather,
      {{"  %s = p2p send %mine to 1 - rank via %h\n",
        "  %m0 = slice %mine[0 .. 1]\n  %m1 = slice %mine[1 .. 4]\n"
        "  %s = p2p send %m0 to 1 - rank via %h\n  %s1 = p2p send %m1 to 1 - rank via %h\n"},
       {"  %r = p2p recv %theirs from 1 - rank via %h\n",
        "  %t0 = slice %theirs[0 .. 1]\n  %t1 = slice %theirs[1 .. 4]\n"
        "  %r = p2p recv %t0 from 1 - rank via %h\n  %r1 = p2p recv %t1 from 1 - rank via %h\n"
        "  wait %r1\n"},
       {"  wait %s", "  wait %s1\n  wait %s"}});
  EXPECT_TRUE(isSafe(halves)) << verdict(halves);
  EXPECT_THAT(
      verdict(edited(
          halves, {{"recv %t0", "recv %tx"}, {"recv %t1", "recv %t0"}, {"recv %tx", "recv %t1"}})),
      HasSubstr("unsafe (transfers): a send of 16 bytes of f32 (get) does not match a receive of "
                "48 bytes of f32 (get)\n"));
}

//===- Deadlock -------------------------------------------------------------------------------===//

/// Returns the report for two ranks that each await a signal issued after the peer's own await.
std::string circle(const std::string &await, const std::string &signal) {
  std::string text;
  for (int rank : {0, 1}) {
    std::string mine = std::to_string(rank), peers = std::to_string(1 - rank);
    text += "  rank " + mine + ", stream(0), run 1: await of " + await + "\n    waits for rank " +
            peers + ", " + signal + "\n    which is queued after rank " + peers +
            ", stream(0), run 1: await of " + await + "\n";
  }
  return text;
}

/// The report of a cycle through many equivalent ranks lists only three of them.
TEST(CheckerDeadlock, OfManyAlikeRanksIsShort) {
  const std::string text = R"(program @p mesh [0 .. 64) (%A: f32[4]) -> (%C: f32[4]) {
  %all = allocate symmetric f32[2, 4]
  %h = share_mem_handles put %all
  %mine = select %all[0]
  %theirs = select %all[1]
  set %mine, %A
  %s = p2p send %mine to (rank + 1) mod 64 via %h
  wait %s
  %r = p2p recv %theirs from (rank - 1) mod 64 via %h
  wait %r
  set %C, %theirs
})";
  const Checked made = checked(text);
  ASSERT_TRUE(made.report && made.report->violation);
  EXPECT_EQ(made.report->violation->events.size(), 64u) << "for tools";
  const std::string told = str(*made.report);
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 11) << told;
  EXPECT_THAT(told, HasSubstr("\n  and 61 similar events\n"));
  EXPECT_THAT(verdict(edited(kGather, {{"  %r = p2p recv %theirs from 1 - rank via %h\n", ""},
                                       {"  %s = p2p", "  %r = p2p recv %theirs from 1 - rank via "
                                                      "%h\n  %s = p2p"}})),
              Not(HasSubstr("more alike")));
}

TEST(CheckerDeadlock, EveryRankCopiesBeforeItReadySignals) {
  std::string send = "  %s = p2p send %mine to 1 - rank via %h\n";
  EXPECT_EQ(verdict(edited(kGather, {{send, ""}, {"  matmul %C_own", send + "  matmul %C_own"}})),
            "unsafe (deadlock): with any number of hardware queues per rank, no rank can make "
            "progress\n" +
                circle("\"%r = p2p recv %theirs from 1 - rank via %h\" at t.braid:21:3",
                       "stream(0), run 1: signal of \"%s = p2p send %mine to 1 - rank via %h\" "
                       "at t.braid:22:3"));
  std::string receive = "  %r = p2p recv %theirs from 1 - rank via %h\n";
  EXPECT_EQ(
      verdict(edited(put(), {{receive, ""}, {"  matmul %C_own", receive + "  matmul %C_own"}})),
      "unsafe (deadlock): with any number of hardware queues per rank, no rank can make "
      "progress\n" +
          circle("\"%s = p2p send %mine to 1 - rank via %h\" at t.braid:21:3",
                 "stream(0), run 1: signal of \"%r = p2p recv %theirs from 1 - rank via %h\" "
                 "at t.braid:22:3"));
}

/// The ready signal is on another stream, but follows the copy in issue order.
std::string readySignalOnOtherStream() {
  return edited(kGather, {{"  %s = p2p send %mine to 1 - rank via %h\n", ""},
                          {"  matmul %C_own", "  set_current_stream %main\n"
                                              "  %s = p2p send %mine to 1 - rank via %h\n"
                                              "  set_current_stream stream(0)\n"
                                              "  matmul %C_own"}});
}

TEST(CheckerDeadlock, TheSmallestSafeNumberOfQueuesIsFound) {
  EXPECT_THAT(verdict(readySignalOnOtherStream()),
              HasSubstr("deadlock   none, with 2 hardware queues per rank\n"));
  EXPECT_TRUE(isSafe(readySignalOnOtherStream(), {.queues = 2}));
  EXPECT_TRUE(isSafe(readySignalOnOtherStream(), {.queues = 7}));
}

TEST(CheckerDeadlock, StreamsThatShareQueuesNeedToBeSafeWithOne) {
  const std::string text = readySignalOnOtherStream(); // uses two streams
  EXPECT_TRUE(isSafe(text, {.ownQueues = 2}));
  EXPECT_TRUE(isSafe(text, {.queues = 2, .ownQueues = 1}));
  EXPECT_THAT(verdict(text, {.ownQueues = 1}),
              AllOf(HasSubstr("with 1 hardware queue per rank, no rank can make progress\n"),
                    HasSubstr("  2 streams share 1 hardware queue on this backend")));
}

/// Stream k uses queue k mod 2, so main and stream(1), the third stream, share a queue.
TEST(CheckerDeadlock, StreamsMeetAgainOnTheSameQueue) {
  std::string text = edited(
      readySignalOnOtherStream(),
      {{"  synchronize %main\n", "  set_current_stream stream(1)\n"
                                 "  synchronize %main\n"},
       {"  set_current_stream stream(0)\n  matmul", "  set_current_stream stream(1)\n  matmul"},
       {"  synchronize stream(0)\n", "  synchronize stream(1)\n"}});
  EXPECT_FALSE(isSafe(text, {.queues = 2}));
  EXPECT_THAT(verdict(text), HasSubstr("with 3 hardware queues"));
}

//===- Races ----------------------------------------------------------------------------------===//

/// The report indicates that an early read returns stale data, whichever access came first.
TEST(CheckerRace, SaysWhichOrderLeavesDataStale) {
  const auto violationOf = [](const std::string &text) {
    const Checked made = checked(text);
    EXPECT_TRUE(made.report && made.report->violation) << text;
    return made.report ? made.report->violation.value_or(Violation()) : Violation();
  };
  const Violation writeFirst = violationOf(edited(kGather, {{"  synchronize %main\n", ""}}));
  EXPECT_EQ(writeFirst.staleIfFirst, 1u);
  EXPECT_EQ(writeFirst.stale, "2 reads the data that 1 has not replaced yet, which is stale");
  EXPECT_EQ(writeFirst.otherwise, "2 reads the data that 1 has written");
  const Violation readFirst =
      violationOf(edited(put(), {{"  wait %r\n", ""}, {"  wait %s\n", "  wait %r\n  wait %s\n"}}));
  EXPECT_EQ(readFirst.staleIfFirst, 0u);
  EXPECT_EQ(readFirst.stale, "1 reads the data that 2 has not replaced yet, which is stale");
  EXPECT_EQ(readFirst.otherwise, "1 reads the data that 2 has written");
}

TEST(CheckerRace, JoinWithoutSynchronize) {
  EXPECT_EQ(verdict(edited(kGather, {{"  synchronize stream(0)\n", ""}})),
            "unsafe (race): a write and a read are not ordered\n"
            "  rank 0, stream(0), run 1: matmul of \"matmul %C_own, %mine, %B\" at t.braid:23:3\n"
            "  rank 0, main, run 1: the caller reads the outputs\n"
            "  both touch %C of rank 0, bytes [0 .. 64)\n"
            "  missing: on rank 0, main has to synchronize with stream(0) after matmul of \"matmul "
            "%C_own, %mine, %B\" at t.braid:23:3 and before the caller reads the outputs\n"
            "  if the second comes before the first, the second reads the data that the first "
            "has not replaced yet, which is stale\n");
}

TEST(CheckerRace, WaitBehindTheUse) {
  EXPECT_TRUE(isSafe(put()));
  EXPECT_EQ(
      verdict(edited(put(), {{"  wait %r\n", ""}, {"  wait %s\n", "  wait %r\n  wait %s\n"}})),
      "unsafe (race): a read and a write are not ordered\n"
      "  rank 1, stream(0), run 1: matmul of \"matmul %C_peer, %theirs, %B\" at t.braid:24:3\n"
      "  rank 0, stream(0), run 1: copy of \"%s = p2p send %mine to 1 - rank via %h\" at "
      "t.braid:22:3\n"
      "  both touch %all of rank 1, bytes [0 .. 64)\n"
      "  missing: on rank 1, \"wait %r\" at t.braid:25:3 has to come before matmul of \"matmul "
      "%C_peer, %theirs, %B\" at t.braid:24:3\n"
      "  if the first comes before the second, the first reads the data that the second has not "
      "replaced yet, which is stale\n");
}

TEST(CheckerRace, CallerTakesItsTensorsBackAfterTheLastRun) {
  std::string text = edited(kGather, {{"  set_current_stream %main\n",
                                       "  set_current_stream stream(1)\n  synchronize %main\n"
                                       "  %late = allocate device f32[4, 4]\n  set %late, %B\n"
                                       "  set_current_stream %main\n  synchronize stream(1)\n"}});
  EXPECT_TRUE(isSafe(text)) << verdict(text);
  EXPECT_THAT(verdict(edited(text, {{"  synchronize stream(1)\n", ""}}), {.runs = 1}),
              HasSubstr("run 2: the caller writes the inputs and provides the outputs\n"
                        "  both touch %B"));
}

TEST(CheckerRace, CallerHandsOverTheOutputsBeforeTheFirstRun) {
  std::string text =
      edited(kGather, {{"  synchronize %main\n", ""},
                       {"  set_current_stream stream(0)\n", "  %one = allocate device f32[4, 4]\n"
                                                            "  set_current_stream stream(0)\n"
                                                            "  set %C_own, %one\n"
                                                            "  synchronize %main\n"}});
  EXPECT_THAT(verdict(text, {.runs = 1}), HasSubstr("both touch %C"));
}

//===- Lifetime -------------------------------------------------------------------------------===//

constexpr const char *kScratch = R"(program @scratch mesh [0 .. 1) (%A: f32[4]) -> (%C: f32[4]) {
  %main = get_current_stream
  %t = allocate device f32[4]
  set %t, %A
  set_current_stream stream(0)
  synchronize %main
  set %C, %t
  set_current_stream %main
  synchronize stream(0)
  deallocate %t
}
)";

TEST(CheckerLifetime, FreedWhileAnotherStreamUsesIt) {
  EXPECT_TRUE(isSafe(kScratch));
  EXPECT_EQ(
      verdict(edited(kScratch, {{"  synchronize stream(0)\n  deallocate %t\n",
                                 "  deallocate %t\n  synchronize stream(0)\n"}})),
      "unsafe (lifetime): a memory access is not ordered with respect to the deallocation of its "
      "buffer\n"
      "  rank 0, stream(0), run 1: copy of \"set %C, %t\" at t.braid:7:3\n"
      "  rank 0, main, run 1: end of %t in \"deallocate %t\" at t.braid:9:3\n"
      "  both touch %t of rank 0, bytes [0 .. 16)\n"
      "  missing: on rank 0, main has to synchronize with stream(0) after copy of \"set %C, "
      "%t\" at t.braid:7:3 and before end of %t in \"deallocate %t\" at t.braid:9:3\n"
      "  if the second comes before the first, the first uses memory that may belong to another "
      "buffer\n");
}

/// The next run may reuse the buffer on streams that are ordered after the deallocate.
TEST(CheckerLifetime, EndIsOrderedByALaterSynchronize) {
  std::string text = edited(kScratch, {{"  set_current_stream %main\n  synchronize stream(0)\n"
                                        "  deallocate %t\n",
                                        "  set_current_stream stream(1)\n"
                                        "  synchronize stream(0)\n"
                                        "  set_current_stream stream(0)\n"
                                        "  deallocate %t\n"
                                        "  set_current_stream %main\n"
                                        "  synchronize stream(0)\n"}});
  EXPECT_TRUE(isSafe(text)) << verdict(text);
}

TEST(CheckerLifetime, MemoryThatIsGivenAwayHoldsNothing) {
  std::string text =
      edited(kScratch, {{"  deallocate %t\n", "  deallocate %t\n  %u = allocate device f32[4]\n"
                                              "  set %u, %A\n  set %C, %u\n"}});
  EXPECT_TRUE(isSafe(text)) << verdict(text);
  EXPECT_EQ(verdict(edited(text, {{"  set %u, %A\n", ""}})),
            "unsafe (result): a command reads data that no command has written\n"
            "  rank 0, main, run 1: copy of \"set %C, %u\" at t.braid:12:3\n"
            "  %u of rank 0, bytes [0 .. 16)\n");
}

//===- Results --------------------------------------------------------------------------------===//

TEST(CheckerResult, WrongBlock) {
  EXPECT_EQ(verdict(edited(kGather, {{"matmul %C_peer, %theirs", "matmul %C_peer, %mine"}})),
            "unsafe (result): %C differs from its definition, starting at byte 64\n"
            "  rank 0, stream(0), run 1: matmul of \"matmul %C_peer, %mine, %B\" at t.braid:25:3\n"
            "    writes %C of rank 0, bytes [64 .. 128) from %all of rank 0, bytes [0 .. 64)\n"
            "  rank 0, main, run 1: copy of \"set %mine, %own\" at t.braid:18:3\n"
            "    writes %all of rank 0, bytes [0 .. 64) from %A of rank 0, bytes [0 .. 64)\n"
            "  rank 0, main, run 1: the caller reads the outputs\n"
            "  it holds the matmul of %A of rank 0 in run 1 (starting at its byte 0)\n"
            "  expected the matmul of %A of rank 1 in run 1 (starting at its byte 0)\n");
}

/// Both results are matmuls of %A, so the message names the second operand.
TEST(CheckerResult, TransposedSecondOperand) {
  EXPECT_EQ(verdict(R"(fusion @square(D = 1) {
  mesh [0 .. D)
  %A = input f32[2, 4]
  %B = input f32[4, 4]
  %C = matmul %A, %B : f32[2, 4]
  output %C
}
program @p implements @square mesh [0 .. 1) (%A: f32[2, 4], %B: f32[4, 4]) -> (%C: f32[2, 4]) {
  linear %C, %A, %B
})"),
            "unsafe (result): %C differs from its definition, starting at byte 0\n"
            "  rank 0, main, run 1: matmul of \"linear %C, %A, %B\" at t.braid:9:3\n"
            "    writes %C of rank 0, bytes [0 .. 32) from %B of rank 0, bytes [0 .. 64)\n"
            "  rank 0, main, run 1: the caller reads the outputs\n"
            "  it holds the matmul of %A in run 1 (starting at its byte 0), multiplied by 4x4 of "
            "%B in run 1 starting at byte 0, transposed\n"
            "  expected the matmul of %A in run 1 (starting at its byte 0), multiplied by 4x4 of "
            "%B in run 1 starting at byte 0\n");
}

/// The block is from the previous run. The first run has no previous run.
TEST(CheckerResult, StaleBlock) {
  std::string receive = "  %r = p2p recv %theirs from 1 - rank via %h\n";
  EXPECT_EQ(
      verdict(edited(kGather, {{receive, ""},
                               {"  wait %r\n", ""},
                               {"  wait %s\n", receive + "  wait %r\n  wait %s\n"}})),
      "unsafe (result): a command reads data that no command has written\n  rank 0, "
      "stream(0), run 1: "
      "matmul of \"matmul %C_peer, %theirs, %B\" at t.braid:23:3\n  %all of rank 0, bytes "
      "[64 .. 128)\n  rank 0, stream(0), run 1: copy of \"%r = p2p recv %theirs from 1 - "
      "rank via %h\" at t.braid:24:3 writes this data only later: from run 2 on, the read returns "
      "stale data from the previous run\n");
}

TEST(CheckerResult, ComputedTwice) {
  EXPECT_EQ(verdict(edited(kGather, {{"  wait %r\n", "  wait %r\n  matmul %C_own, %mine, %B\n"}})),
            "unsafe (result): a command computes part of an output that was already computed in "
            "the same run\n"
            "  rank 1, stream(0), run 1: matmul of \"matmul %C_own, %mine, %B\" at t.braid:23:3\n"
            "    writes %C of rank 1, bytes [64 .. 128) from %all of rank 1, bytes [64 .. 128)\n"
            "  rank 1, stream(0), run 1: matmul of \"matmul %C_own, %mine, %B\" at t.braid:25:3\n"
            "  %C of rank 1, bytes [64 .. 128)\n");
}

TEST(CheckerResult, PartOfABlockIsMissing) {
  EXPECT_THAT(
      verdict(edited(kGather, {{"  matmul %C_peer, %theirs, %B\n",
                                "  %t = slice %theirs[0 .. 3]\n  %c = slice %C_peer[0 .. 3]\n"
                                "  matmul %c, %t, %B\n"}})),
      HasSubstr("unsafe (result): %C differs from its definition, starting at byte 112\n"));
}

TEST(CheckerResult, SumsAreNoGemms) {
  EXPECT_THAT(verdict(edited(kGather, {{"  matmul %C_peer, %theirs, %B\n",
                                        "  %t = allocate device f32[2, 4, 4]\n"
                                        "  %t0 = select %t[0]\n  matmul %t0, %theirs, %B\n"
                                        "  %t1 = select %t[1]\n  set %t1, %theirs\n"
                                        "  sum %C_peer, %t\n"}})),
              HasSubstr("it holds the sum of the matmul of %A of rank 1 in run 1 and %A of rank 1 "
                        "in run 1"));
}

//===- Correct programs that are harder to follow ---------------------------------------------===//

TEST(CheckerResult, UnevenPiecesInAnyOrder) {
  std::string text = edited(
      kGather, {{"  matmul %C_own, %mine, %B\n", "  for %i in 0 .. 2 {\n"
                                                 "    %m = slice %mine[3 - 3 * %i .. 4 - %i]\n"
                                                 "    %c = slice %C_own[3 - 3 * %i .. 4 - %i]\n"
                                                 "    matmul %c, %m, %B\n  }\n"}});
  EXPECT_TRUE(isSafe(text)) << verdict(text);
  EXPECT_FALSE(
      isSafe(edited(text, {{"%C_own[3 - 3 * %i .. 4 - %i]", "%C_own[%i .. 1 + 3 * %i]"}})));
}

TEST(CheckerResult, OutputThatIsAnInput) {
  std::string text = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[4]
  %B = input f32[DIDx{D}, 4]
  output %A, %B
}
program @copy implements @f mesh [0 .. 2) (%A: f32[4], %B: f32[1, 4])
    -> (%C: f32[4], %E: f32[1, 4]) {
  set %C, %A
  set %E, %B
}
)";
  EXPECT_TRUE(isSafe(text)) << verdict(text);
  EXPECT_THAT(verdict(edited(text, {{"  set %E, %B\n", "  %e = select %E[0]\n  set %e, %A\n"}})),
              HasSubstr("it holds %A in run 1 (starting at its byte 0)\n"
                        "  expected %B of rank 0 in run 1"));
}

/// Every rank computes only its part of a replicated operand.
TEST(CheckerResult, PartOfAReplicatedOperand) {
  std::string text = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[D, 3, 4]
  %B = input f32[4, 5]
  %C = matmul %A, %B : f32[DIDx{D}, 3, 5]
  output %C
}
program @part implements @f mesh [0 .. 2) (%A: f32[2, 3, 4], %B: f32[4, 5])
    -> (%C: f32[1, 3, 5]) {
  %a = select %A[rank]
  %c = select %C[0]
  matmul %c, %a, %B
}
)";
  EXPECT_TRUE(isSafe(text)) << verdict(text);
  EXPECT_FALSE(isSafe(edited(text, {{"%A[rank]", "%A[1 - rank]"}})));
}

/// B is identical on all ranks, so any rank's copy may be used. A differs between ranks.
std::string usesThePeersCopy(const std::string &source) {
  std::string text = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 4, 4]
  %B = input f32[4, 4]
  %C = matmul %A, %B : f32[DIDx{D}, 4, 4]
  output %C
}
program @borrow implements @f mesh [0 .. 2) (%A: f32[1, 4, 4], %B: f32[4, 4])
    -> (%C: f32[1, 4, 4]) {
  %mine = allocate symmetric f32[4, 4]
  %theirs = allocate symmetric f32[4, 4]
  %out = share_mem_handles get %mine
  %in = share_mem_handles put %theirs
  %own = select %A[0]
  %c = select %C[0]
  %r = p2p recv %theirs from 1 - rank via %in
  %s = p2p send SOURCE to 1 - rank via %in
  wait %r
  wait %s
  matmul %c, FIRST, SECOND
  set %mine, %B
  %s2 = p2p send %mine to 1 - rank via %out
  wait %s2
}
)";
  bool isB = source == "%B";
  // The second receive serves only to use another channel.
  text = edited(text, {{"  wait %s2\n", "  %sink = allocate device f32[4, 4]\n"
                                        "  %r2 = p2p recv %sink from 1 - rank via %out\n"
                                        "  wait %r2\n  wait %s2\n"}});
  return edited(text, {{"SOURCE", source},
                       {"FIRST", isB ? "%own" : "%theirs"},
                       {"SECOND", isB ? "%theirs" : "%B"}});
}

TEST(CheckerResult, ReplicatedAndSplitOperands) {
  EXPECT_TRUE(isSafe(usesThePeersCopy("%B"))) << verdict(usesThePeersCopy("%B"));
  EXPECT_THAT(verdict(usesThePeersCopy("%own")),
              HasSubstr("it holds the matmul of %A of rank 1 in run 1"));
}

TEST(CheckerResult, WhatCannotBeFollowedIsSaid) {
  std::string text = R"(fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[3, 4]
  %B = input f32[4, DIDx{D}, 5]
  %C = matmul %A, %B : f32[3, D, 5]
  output %C
}
program @part implements @f mesh [0 .. 2) (%A: f32[3, 4], %B: f32[4, 1, 5])
    -> (%C: f32[3, 2, 5]) {
  for %i in 0 .. 3 {
    %a = select %A[%i]
    %c = select %C[%i]
    for %j in 0 .. 2 {
      %d = slice %c[%j .. %j + 1]
      matmul %d, %a, %B
    }
  }
}
)";
  EXPECT_THAT(verdict(text),
              HasSubstr("not checked: %C reshards an axis of its second operand, %B\n"));
  EXPECT_EQ(verdict(edited(text, {{"%j in 0 .. 2", "%j in 1 .. 2"}})),
            "unsafe (result): the caller reads data that no command has written\n"
            "  rank 0, main, run 1: the caller reads the outputs\n"
            "  no command writes %C of rank 0, bytes [0 .. 20)\n");
}

//===- Plans that lowering never produces -----------------------------------------------------===//

/// The Plans of kGather, with its fusion.
struct Plans : Planned {
  explicit Plans(const std::string &text = kGather) : Planned(planned(text)) {}

  Command &find(size_t rank, CommandKind kind) {
    for (Command &command : plans[rank].commands)
      if (command.kind == kind)
        return command;
    ADD_FAILURE() << "there is no " << name(kind).str();
    return plans[rank].commands.front();
  }
  void drop(size_t rank, CommandKind kind) {
    size_t index = static_cast<size_t>(&find(rank, kind) - plans[rank].commands.data());
    plans[rank].commands.erase(plans[rank].commands.begin() + static_cast<std::ptrdiff_t>(index));
  }
  std::string verdict(const CheckOptions &options = {}) {
    Result<CheckReport> report = check(plans, compiled.fusion, options);
    return report ? str(*report) : report.status().message();
  }
};

TEST(CheckerPlans, NothingToCheckIsAnError) {
  Plans p;
  EXPECT_EQ(p.verdict({.runs = 0}), "expected at least one rank and one run to check");
  EXPECT_FALSE(check({}, nullptr, {}));
}

TEST(CheckerPlans, LostSignal) {
  Plans p;
  p.drop(1, CommandKind::Signal);
  EXPECT_EQ(
      p.verdict(),
      "unsafe (deadlock): with any number of hardware queues per rank, no rank can make progress\n"
      "  rank 0, stream(0), run 1: await of \"%r = p2p recv %theirs from 1 - rank via "
      "%h\" at t.braid:22:3\n"
      "  no command ever sends the awaited signal\n");
}

TEST(CheckerPlans, MissingAwait) {
  Plans p;
  p.drop(1, CommandKind::Await);
  EXPECT_THAT(p.verdict(), HasSubstr("unsafe (race): a write and a read are not ordered\n"
                                     "  rank 0, main, run 1: copy of \"set %mine, %own\""));
}

TEST(CheckerPlans, SharedFlag) {
  Plans p;
  p.plans[0].endpoints[1].flag = p.plans[0].endpoints[0].flag;
  EXPECT_EQ(p.verdict(),
            "unsafe (transfers): two transfers share flag 0\n"
            "  rank 0: \"%s = p2p send %mine to 1 - rank via %h\" at t.braid:21:3\n"
            "  rank 0: \"%r = p2p recv %theirs from 1 - rank via %h\" at t.braid:22:3\n");
}

TEST(CheckerPlans, SignalledTwice) {
  Plans p;
  p.plans[0].commands.push_back(p.find(0, CommandKind::Signal));
  EXPECT_THAT(p.verdict(),
              HasSubstr("unsafe (transfers): the signal is issued twice for one transfer"));
}

TEST(CheckerPlans, EventThatIsRecordedAfterItsWait) {
  Plans p;
  std::vector<Command> &commands = p.plans[0].commands;
  for (size_t i = 0; i + 1 < commands.size(); ++i)
    if (commands[i].kind == CommandKind::Record && commands[i + 1].kind == CommandKind::WaitEvent) {
      std::swap(commands[i], commands[i + 1]);
      break;
    }
  // From the second run on, the wait refers to the record of the previous run, which is too early.
  EXPECT_THAT(p.verdict(), HasSubstr("unsafe (race)"));
}

TEST(CheckerPlans, TwoBuffersInOnePlace) {
  std::string text = edited(kGather, {{"  %main =", "  %t = allocate device f32[4, 4]\n"
                                                    "  %u = allocate device f32[4, 4]\n  %main ="},
                                      {"  set %mine, %own\n", "  set %t, %own\n  set %mine, %t\n"
                                                              "  set %u, %B\n"},
                                      {"%C_peer, %theirs, %B", "%C_peer, %theirs, %u"},
                                      {"%C_own, %mine, %B", "%C_own, %t, %B"}});
  Plans p(text);
  EXPECT_THAT(p.verdict(), HasSubstr("safe on 2 ranks"));
  for (PlanBuffer &buffer : p.plans[0].buffers)
    if (buffer.kind == BufferKind::Device)
      buffer.offset = 0;
  EXPECT_THAT(p.verdict(), HasSubstr("it holds the matmul of %B in run 1"));
}

TEST(CheckerPlans, CommandThatReadsWhatItWrites) {
  Plans p;
  p.plans[0].matmuls[0].c = p.plans[0].matmuls[0].a;
  EXPECT_EQ(p.verdict(), "unsafe (result): a command reads bytes that it also writes\n"
                         "  rank 0, stream(0), run 1: matmul of \"matmul %C_own, %mine, %B\" at "
                         "t.braid:23:3\n"
                         "  it reads and writes %all of rank 0, bytes [0 .. 64)\n");
}

TEST(CheckerPlans, RanksThatPrepareDifferently) {
  Plans p;
  p.plans[1].channels = 0;
  EXPECT_THAT(
      p.verdict(),
      HasSubstr(
          "unsafe (transfers): ranks 0 and 1 share memory handles a different number of times\n"));
}

TEST(CheckerPlans, DifferentPrograms) {
  Plans p;
  p.plans[1].fingerprint ^= 1;
  EXPECT_EQ(p.verdict(), "unsafe (transfers): ranks 0 and 1 run different programs\n");
}

TEST(CheckerPlans, OutOfReach) {
  Plans p;
  for (PlanBuffer &buffer : p.plans[1].buffers)
    if (buffer.kind == BufferKind::Symmetric)
      buffer.kind = BufferKind::Device;
  EXPECT_THAT(p.verdict(), HasSubstr("unsafe (transfers): %all is not accessible to the peer\n"));
}

} // namespace
} // namespace braid
