//===- tests/lowering/rewrites_test.cpp - passes that read nothing but the program ------------===//
//
// simplify and sink-waits keep no notes, so they are tested on programs written for the purpose.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/passes/passes.h"
#include "tests/lowering/support.h"

#include "ir/module.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

/// The result of `pass` on a program with this body on 4 ranks. A pass that changes it says so.
std::string rewrite(bool (*pass)(LoweringState &), const std::string &body) {
  std::string text = "program @p mesh [0 .. 4)\n      (%A: f32[6, 5], %B: f32[5, 3]) -> "
                     "(%C: f32[6, 3]) {\n" +
                     body + "}\n";
  Diagnostics diags("test.braid", text);
  Module module = parse(diags);
  EXPECT_TRUE(!diags.hasErrors() && verify(module, diags)) << diags.str();
  std::string before = str(*module.programs[0]);
  Fusion fusion("f");
  LoweringState state{fusion, {}, diags};
  state.program = std::move(module.programs[0]);
  bool changed = pass(state);
  EXPECT_TRUE(verify(*state.program, Module(), diags)) << diags.str();
  std::string after = str(*state.program);
  EXPECT_EQ(changed, before != after);
  EXPECT_FALSE(pass(state)) << "once more, and there is something left to do";
  llvm::StringRef nodes = llvm::StringRef(after).split("{\n").second;
  return nodes.substr(0, nodes.rfind("}\n")).str();
}

//===- simplify: loops ------------------------------------------------------------------------===//

TEST(SimplifyLoops, RemovesThoseWithoutATrip) {
  EXPECT_EQ(rewrite(simplify, R"(  for %i in 3 .. 3 {
    matmul %C, %A, %B
  }
  for %i in 3 .. 1 {
    matmul %C, %A, %B
  }
)"),
            "");
}

TEST(SimplifyLoops, InlinesThoseWithOneTrip) {
  EXPECT_EQ(rewrite(simplify, R"(  for %i in 1 .. 2 {
    for %c in %i .. %i + 1 {
      %a = slice %A[%c * 2 .. %c * 2 + 1]
      %o = slice %C[%i .. %i + 1]
      matmul %o, %a, %B
    }
  }
)"),
            R"(  %a = slice %A[2 .. 3]
  %o = slice %C[1 .. 2]
  matmul %o, %a, %B
)");
}

TEST(SimplifyLoops, KeepsThoseWithMore) {
  std::string body = R"(  for %i in 0 .. 2 {
    %a = slice %A[%i .. %i + 1]
    %o = slice %C[%i .. %i + 1]
    matmul %o, %a, %B
  }
)";
  EXPECT_EQ(rewrite(simplify, body), body);
}

TEST(SimplifyLoops, TellsInlinedValuesApart) {
  EXPECT_EQ(rewrite(simplify, R"(  for %i in 0 .. 1 {
    %a = slice %A[0 .. 1]
    %o = slice %C[0 .. 1]
    matmul %o, %a, %B
  }
  for %i in 0 .. 2 {
    %a = slice %A[%i .. %i + 1]
    %o_2 = slice %C[%i .. %i + 1]
    matmul %o_2, %a, %B
  }
  for %i in 2 .. 3 {
    %a = slice %A[2 .. 3]
    %o = slice %C[2 .. 3]
    matmul %o, %a, %B
  }
)"),
            R"(  %a = slice %A[0 .. 1]
  %o = slice %C[0 .. 1]
  matmul %o, %a, %B
  for %i in 0 .. 2 {
    %a_2 = slice %A[%i .. %i + 1]
    %o_2 = slice %C[%i .. %i + 1]
    matmul %o_2, %a_2, %B
  }
  %a_3 = slice %A[2 .. 3]
  %o_3 = slice %C[2 .. 3]
  matmul %o_3, %a_3, %B
)");
}

//===- simplify: values -----------------------------------------------------------------------===//

TEST(SimplifyValues, RemovesUnusedOnes) {
  EXPECT_EQ(rewrite(simplify, R"(  %main = get_current_stream
  %a = slice %A[0 .. 2]
  %x = select %a[0]
  %buffer = allocate device f32[6, 5]
  %y = select %buffer[0]
  matmul %C, %A, %B
)"),
            "  matmul %C, %A, %B\n");
}

TEST(SimplifyValues, KeepsWhatTransfersUse) {
  std::string body = R"(  %all = allocate symmetric f32[6, 5]
  %in = allocate device f32[6, 5]
  %h = share_mem_handles get %all
  %s = p2p send %all to (rank + 1) mod 4 via %h
  %r = p2p recv %in from (rank - 1) mod 4 via %h
  wait %r
  wait %s
)";
  EXPECT_EQ(rewrite(simplify, body), body);
}

//===- simplify: streams ----------------------------------------------------------------------===//

TEST(SimplifyStreams, RemovesChangesToTheSameStream) {
  EXPECT_EQ(rewrite(simplify, R"(  set_current_stream stream(0)
  matmul %C, %A, %B
  set_current_stream stream(0)
  matmul %C, %A, %B
)"),
            R"(  set_current_stream stream(0)
  matmul %C, %A, %B
  matmul %C, %A, %B
)");
}

TEST(SimplifyStreams, RemovesChangesThatAreChangedAgain) {
  EXPECT_EQ(rewrite(simplify, R"(  set_current_stream stream(0)
  %a = slice %A[0 .. 1]
  set_current_stream stream(1)
  %o = slice %C[0 .. 1]
  matmul %o, %a, %B
)"),
            R"(  %a = slice %A[0 .. 1]
  set_current_stream stream(1)
  %o = slice %C[0 .. 1]
  matmul %o, %a, %B
)");
}

TEST(SimplifyStreams, KnowsTheCallersStream) {
  EXPECT_EQ(rewrite(simplify, R"(  %main = get_current_stream
  set_current_stream %main
  matmul %C, %A, %B
)"),
            "  matmul %C, %A, %B\n");
}

TEST(SimplifyStreams, LooksIntoLoopsThatKeepTheStream) {
  EXPECT_EQ(rewrite(simplify, R"(  set_current_stream stream(0)
  for %i in 0 .. 2 {
    set_current_stream stream(0)
    matmul %C, %A, %B
  }
  set_current_stream stream(0)
  matmul %C, %A, %B
)"),
            R"(  set_current_stream stream(0)
  for %i in 0 .. 2 {
    matmul %C, %A, %B
  }
  matmul %C, %A, %B
)");
}

TEST(SimplifyStreams, KeepsWhatALoopOrBranchChanges) {
  std::string body = R"(  set_current_stream stream(0)
  for %i in 0 .. 3 {
    set_current_stream stream(0)
    matmul %C, %A, %B
    set_current_stream stream(%i)
    matmul %C, %A, %B
  }
  set_current_stream stream(0)
  if rank == 0 {
    set_current_stream stream(1)
  }
  set_current_stream stream(0)
  matmul %C, %A, %B
)";
  EXPECT_EQ(rewrite(simplify, body), body);
}

// The same text is another stream in the next trip.
TEST(SimplifyStreams, KeepsWhatDependsOnALoop) {
  std::string body = R"(  for %i in 0 .. 3 {
    for %c in 0 .. 3 {
      set_current_stream stream(%i + %c)
      matmul %C, %A, %B
    }
  }
)";
  EXPECT_EQ(rewrite(simplify, body), body);
}

//===- sink-waits -----------------------------------------------------------------------------===//

std::string ring(llvm::StringRef between) {
  return R"(  %all = allocate symmetric f32[6, 5]
  %in = allocate device f32[6, 5]
  %h = share_mem_handles get %all
  %s = p2p send %all to (rank + 1) mod 4 via %h
  %r = p2p recv %in from (rank - 1) mod 4 via %h
  wait %r
)" + between.str();
}

TEST(SinkWaitsIn, PassesGemmsThatDoNotConcernIt) {
  EXPECT_EQ(rewrite(sinkWaits, ring("  wait %s\n  matmul %C, %in, %B\n  matmul %C, %A, %B\n"
                                    "  set_current_stream stream(0)\n")),
            ring("  matmul %C, %in, %B\n  matmul %C, %A, %B\n  wait %s\n"
                 "  set_current_stream stream(0)\n"));
}

TEST(SinkWaitsIn, PassesGemmsThatReadWhatWasSent) {
  EXPECT_EQ(rewrite(sinkWaits, ring("  wait %s\n  matmul %C, %all, %B\n")),
            ring("  matmul %C, %all, %B\n  wait %s\n"));
}

TEST(SinkWaitsIn, StopsWhereTheSourceIsOverwritten) {
  std::string body = ring("  wait %s\n  set %all, %in\n  matmul %C, %A, %B\n");
  EXPECT_EQ(rewrite(sinkWaits, body), body);
  EXPECT_EQ(rewrite(sinkWaits, ring("  wait %s\n  matmul %C, %in, %B\n  set %all, %in\n"
                                    "  matmul %C, %A, %B\n")),
            ring("  matmul %C, %in, %B\n  wait %s\n  set %all, %in\n  matmul %C, %A, %B\n"));
}

TEST(SinkWaitsIn, StopsAtLoopsAndReceives) {
  std::string loop = ring("  wait %s\n  for %i in 0 .. 2 {\n    matmul %C, %A, %B\n  }\n"
                          "  matmul %C, %A, %B\n");
  EXPECT_EQ(rewrite(sinkWaits, loop), loop);
  std::string receive = ring("  wait %s\n  %t = p2p send %all to (rank + 1) mod 4 via %h\n"
                             "  %q = p2p recv %all from (rank - 1) mod 4 via %h\n"
                             "  matmul %C, %A, %B\n  wait %q\n  wait %t\n");
  EXPECT_EQ(rewrite(sinkWaits, receive), receive);
}

TEST(SinkWaitsIn, LeavesReceivesAlone) {
  std::string body = R"(  %all = allocate symmetric f32[6, 5]
  %in = allocate device f32[6, 5]
  %h = share_mem_handles get %all
  %s = p2p send %all to (rank + 1) mod 4 via %h
  %r = p2p recv %in from (rank - 1) mod 4 via %h
  wait %s
  wait %r
)";
  EXPECT_EQ(rewrite(sinkWaits, body), body);
}

} // namespace
} // namespace braid
