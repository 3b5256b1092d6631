//===- tests/ir/builder_test.cpp - fusions and programs built in C++ --------------------------===//

#include "ir/builder.h"
#include "tests/support/case_file.h"

namespace braid::test {
namespace {

TEST(Fusion, HasGlobalAndLocalShapes) {
  Module module = parseOrFail("fusion @ag_matmul(D = 8, M = 1024, K = 512) {\n"
                              "  mesh [0 .. D)\n"
                              "  %A = input bf16[DIDx{D}, M/D, K]\n"
                              "  output %A\n"
                              "}\n");
  const Fusion &fusion = *module.fusions[0];
  EXPECT_EQ(fusion.ranks(), 8);
  EXPECT_EQ(fusion.meshParameter()->name, "D");
  EXPECT_EQ(fusion.globalShape(fusion.inputs()[0]->type), (Shape{8, 128, 512}));
  EXPECT_EQ(fusion.localShape(fusion.inputs()[0]->type), (Shape{1, 128, 512}));
}

TEST(Fusion, HostsOfAMesh) {
  Fusion fusion("f");
  const Scalar *d = fusion.addParameter("D", 8), *l = fusion.addParameter("L", 2);
  fusion.setMesh(d, {}, l);
  EXPECT_EQ(fusion.ranksPerHost(), 2);
  EXPECT_TRUE(fusion.setParameter("L", 4));
  EXPECT_EQ(fusion.ranksPerHost(), 4);
  EXPECT_EQ(meshText(fusion), "mesh [0 .. D) of L");
  fusion.setMesh(d, {}, d);
  EXPECT_EQ(fusion.hostSize(), nullptr);
  EXPECT_EQ(fusion.ranksPerHost(), 8);
  fusion.setMesh(d);
  EXPECT_EQ(fusion.ranksPerHost(), 8);
}

TEST(ProgramBuilder, HostsOfAMesh) {
  EXPECT_EQ(Program("p", "", 8).ranksPerHost(), 8);
  EXPECT_EQ(Program("p", "", 8, {}, 2).ranksPerHost(), 2);
  EXPECT_EQ(meshText(Program("p", "", 8)), "mesh [0 .. 8)");
  EXPECT_EQ(meshText(Program("p", "", 8, {}, 2)), "mesh [0 .. 8) of 2");
}

/// Builds a gather of one block and its GEMM.
void buildProgram(Program &program) {
  ProgramBuilder b(program);
  Value *A = b.param("A", b.tensorType(DType::F32, {1, 4, 8}));
  Value *B = b.param("B", b.tensorType(DType::F32, {8, 2}));
  Value *C = b.result("C", b.tensorType(DType::F32, {2, 4, 2}));
  Value *all = b.allocate("all", MemorySpace::Symmetric, b.tensorType(DType::F32, {2, 4, 8}));
  Value *h = b.shareMemHandles("h", Protocol::Put, {all});
  Value *mine = b.select("x", all, b.scalars().rank());
  b.set(mine, b.select("x_2", A, b.scalars().constant(0)));
  ForOp *loop = b.forLoop("i", b.scalars().constant(1), b.scalars().constant(2));
  const Scalar *peer =
      b.scalars().mod(b.scalars().add(b.scalars().rank(), loop->index), b.scalars().constant(2));
  b.insertAtEnd(loop->body);
  GroupOp *group = b.group();
  b.insertAtEnd(group->body);
  Value *r = b.receive("r", b.select("block", all, peer), peer, h);
  Value *s = b.send("s", A, peer, h);
  b.insertAfter(loop->body, *group);
  b.wait(r);
  b.wait(s);
  Value *out = b.select("out", C, peer);
  b.matmul(out, b.select("block_2", all, peer), B);
}

/// `select` is not allowed in a group, so the program can be printed but is rejected.
TEST(ProgramBuilder, PrintsWhatWasBuilt) {
  Program program("by_hand", "", 2);
  buildProgram(program);
  EXPECT_EQ(str(program), R"(program @by_hand mesh [0 .. 2)
    (%A: f32[1, 4, 8], %B: f32[8, 2]) -> (%C: f32[2, 4, 2]) {
  %all = allocate symmetric f32[2, 4, 8]
  %h = share_mem_handles put %all
  %x = select %all[rank]
  %x_2 = select %A[0]
  set %x, %x_2
  for %i in 1 .. 2 {
    group {
      %block = select %all[(rank + %i) mod 2]
      %r = p2p recv %block from (rank + %i) mod 2 via %h
      %s = p2p send %A to (rank + %i) mod 2 via %h
    }
    wait %r
    wait %s
    %out = select %C[(rank + %i) mod 2]
    %block_2 = select %all[(rank + %i) mod 2]
    matmul %out, %block_2, %B
  }
}
)");
  Diagnostics diags;
  EXPECT_FALSE(verify(program, Module(), diags));
  EXPECT_EQ(diags.str(), "<input>: error: expected only 'p2p' in 'group', got 'select'\n");
}

TEST(ProgramBuilder, InsertsWhereItIsTold) {
  Program program("p", "", 2);
  ProgramBuilder b(program);
  Op *middle = b.synchronize({nullptr, b.scalars().constant(1)});
  b.insertBefore(program.body(), *middle);
  b.synchronize({nullptr, b.scalars().constant(0)});
  b.insertAfter(program.body(), *middle);
  b.synchronize({nullptr, b.scalars().constant(2)});
  b.synchronize({nullptr, b.scalars().constant(3)});
  std::string order;
  for (const Op &op : program.body())
    order += str(op) + ";";
  EXPECT_EQ(order, "synchronize stream(0);synchronize stream(1);synchronize stream(2);"
                   "synchronize stream(3);");
}

/// A clone of every node without blocks prints like the original.
TEST(ProgramBuilder, ClonesEveryNodeWithoutBlocks) {
  Module module = parseOrFail(readFile("tests/ir/inputs/nodes.braid"));
  Program &original = *module.programs[0];
  std::string before = str(original);
  ProgramBuilder b(original);
  ProgramBuilder::Mapping mapping;
  Block copies;
  b.insertAtEnd(copies);
  std::string expected, got;
  walk(original.body(), [&](const Op &op) {
    if (llvm::isa<ForOp>(&op) || llvm::isa<IfOp>(&op) || llvm::isa<GroupOp>(&op))
      return;
    b.clone(op, mapping);
    expected += str(op) + "\n";
  });
  walk(copies, [&](const Op &op) { got += str(op) + "\n"; });
  EXPECT_EQ(got, expected);
  EXPECT_EQ(str(original), before);
  // The copies refer to each other, not to the originals.
  walk(copies, [&](const Op &op) {
    forEachOperand(op, [&](const Value *operand) {
      EXPECT_EQ(mapping.values.count(operand), 0u) << str(op) << " still uses an original";
    });
  });
}

TEST(ProgramBuilder, ClonesWithReplacements) {
  Module module = parseOrFail("program @p mesh [0 .. 4) (%A: f32[4, 2]) -> (%C: f32[4, 2]) {\n"
                              "  for %i in 0 .. 4 {\n"
                              "    %x = select %A[(rank + %i) mod 4]\n"
                              "    %y = select %C[%i]\n"
                              "    set %y, %x\n"
                              "  }\n"
                              "}\n");
  Program &program = *module.programs[0];
  auto &loop = *llvm::cast<ForOp>(&program.body().front());
  ProgramBuilder b(program);
  ProgramBuilder::Mapping mapping;
  mapping.scalars.emplace_back(loop.index, b.scalars().constant(0));
  for (const Op &op : loop.body)
    b.clone(op, mapping);
  EXPECT_EQ(str(program), "program @p mesh [0 .. 4)\n"
                          "    (%A: f32[4, 2]) -> (%C: f32[4, 2]) {\n"
                          "  for %i in 0 .. 4 {\n"
                          "    %x = select %A[(rank + %i) mod 4]\n"
                          "    %y = select %C[%i]\n"
                          "    set %y, %x\n"
                          "  }\n"
                          "  %x = select %A[rank]\n"
                          "  %y = select %C[0]\n"
                          "  set %y, %x\n"
                          "}\n");
}

} // namespace
} // namespace braid::test
