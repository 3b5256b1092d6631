//===- tests/ir/verify_built_test.cpp - rules that only a builder can break -------------------===//
//
// In a text, the parser reports these errors before the verifier runs. Errors in fusions and
// programs that C++ code builds are reported only by the verifier.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/builder.h"
#include "tests/support/case_file.h"

namespace braid::test {
namespace {

class VerifyFusion : public testing::Test {
protected:
  VerifyFusion() { fusion.setMesh(fusion.scalars().constant(2)); }
  std::string messages() {
    Diagnostics diags;
    verify(fusion, diags);
    return diags.str();
  }
  /// Adds an input whose only axis has extent 1.
  static FusionTensor *addInput(Fusion &to, llvm::StringRef name) {
    return to.add({FusionOpKind::Input, {}}, name,
                  {DType::F32, {{AxisKind::Plain, to.scalars().constant(1)}}});
  }
  void addOutput(std::vector<FusionTensor *> tensors) {
    fusion.add({FusionOpKind::Output, {}, {tensors.begin(), tensors.end()}});
  }
  Fusion fusion{"f"};
};

TEST_F(VerifyFusion, HasAMesh) {
  Fusion other("other");
  other.add({FusionOpKind::Output, {}, {addInput(other, "A")}});
  Diagnostics diags;
  EXPECT_FALSE(verify(other, diags));
  EXPECT_EQ(diags.str(), "<input>: error: fusion @other has no mesh\n");
}

TEST_F(VerifyFusion, NamesCanBeReadBack) {
  fusion.addParameter("2M", 4);
  fusion.addParameter("mod", 4);
  addOutput({addInput(fusion, "my tensor")});
  EXPECT_EQ(
      messages(),
      "<input>: error: the parameter name '2M' must start with a letter or '_' and contain only "
      "letters, digits and '_'\n<input>: error: expected a parameter name, got 'mod', "
      "which is a keyword\n<input>: error: the tensor name 'my tensor' must start with a "
      "letter or '_' and contain only letters, digits and '_'\n");
}

TEST_F(VerifyFusion, NamesAreUnique) {
  fusion.addParameter("M", 4);
  fusion.addParameter("M", 5);
  FusionTensor *first = addInput(fusion, "A");
  addOutput({first, addInput(fusion, "A")});
  EXPECT_EQ(messages(), "<input>: error: redefinition of parameter 'M'\n"
                        "<input>: note: first defined here\n"
                        "<input>: error: redefinition of '%A'\n"
                        "<input>: note: first defined here\n");
}

TEST_F(VerifyFusion, TensorsHaveAxesThatParametersDecide) {
  ScalarContext foreign;
  FusionTensor *scalar = fusion.add({FusionOpKind::Input, {}}, "A");
  const FusionType type{DType::F32, {{AxisKind::Plain, foreign.rank()}}};
  addOutput({scalar, fusion.add({FusionOpKind::Input, {}}, "B", type)});
  EXPECT_EQ(messages(), "<input>: error: %A has no axes, expected at least one\n"
                        "<input>: error: extent rank of axis 0 of %B uses a name that is not in "
                        "scope here; only parameters and integers are allowed\n");
}

TEST_F(VerifyFusion, OperandsAreDefinedBefore) {
  Fusion other("other");
  addOutput({addInput(other, "F"), nullptr});
  EXPECT_EQ(messages(), "<input>: error: 'output' uses %F, which is not defined before this use\n"
                        "<input>: error: 'output' lacks an operand\n"
                        "<input>: error: fusion @f has no output\n");
}

class VerifyProgram : public testing::Test {
protected:
  std::string messages() {
    Diagnostics diags;
    verify(program, Module(), diags);
    return diags.str();
  }
  const Scalar *constant(int64_t value) { return b.scalars().constant(value); }
  Program program{"p", "", 4};
  ProgramBuilder b{program};
};

TEST_F(VerifyProgram, NamesCanBeReadBack) {
  b.getCurrentStream("1");
  b.forLoop("", constant(0), constant(1));
  Program unnamed("", "", 1);
  Diagnostics diags;
  EXPECT_FALSE(verify(unnamed, Module(), diags));
  EXPECT_EQ(diags.str(), "<input>: error: the program name '' must start with a letter or '_' "
                         "and contain only letters, digits and '_'\n");
  EXPECT_EQ(
      messages(),
      "<input>: error: the stream name '1' must start with a letter or '_' and contain "
      "only letters, digits and '_'\n<input>: error: the loop index name '' must start with a "
      "letter or '_' and contain only letters, digits and '_'\n");
}

TEST_F(VerifyProgram, NamesAreUniqueAmongTheVisible) {
  b.getCurrentStream("s");
  ForOp *loop = b.forLoop("s", constant(0), constant(1));
  b.insertAtEnd(loop->body);
  b.getCurrentStream("t");
  b.insertAtEnd(program.body());
  b.getCurrentStream("t");
  EXPECT_EQ(messages(), "<input>: error: redefinition of '%s'\n"
                        "<input>: note: first defined here\n");
}

TEST_F(VerifyProgram, OperandsAreVisible) {
  ForOp *loop = b.forLoop("i", constant(0), constant(1));
  b.insertAtEnd(loop->body);
  Value *inner = b.getCurrentStream("inner");
  b.insertAtEnd(program.body());
  b.synchronize({inner, nullptr});
  Value *late = b.getCurrentStream("late");
  b.insertBefore(program.body(), program.body().front());
  b.setCurrentStream({late, nullptr});
  EXPECT_EQ(messages(),
            "<input>: error: 'set_current_stream' uses %late, which is not defined before this use "
            "or is not visible here\n<input>: error: 'synchronize' uses %inner, which is not "
            "defined before this use or is not visible here\n");
}

TEST_F(VerifyProgram, NothingIsMissing) {
  b.wait(nullptr);
  b.synchronize({});
  b.ifOp(nullptr);
  b.shareMemHandles("h", Protocol::Get, {});
  EXPECT_EQ(messages(), "<input>: error: 'wait' lacks an operand\n"
                        "<input>: error: 'synchronize' lacks a stream\n"
                        "<input>: error: 'if' lacks an expression\n"
                        "<input>: error: 'share_mem_handles' lists no buffers\n");
}

TEST_F(VerifyProgram, WhatIsSentHasNoBias) {
  const TensorType type = b.tensorType(DType::F32, {4, 4});
  Value *a = b.param("A", type), *bias = b.param("b", b.tensorType(DType::F32, {4}));
  Value *shared = b.allocate("x", MemorySpace::Symmetric, type);
  Value *handles = b.shareMemHandles("h", Protocol::Put, {shared});
  b.wait(b.send("s", *b.linear(shared, a, a), type, constant(1), handles));
  EXPECT_EQ(messages(), "");
  EXPECT_EQ(program.body().size(), 4u) << "the linear is in no block";
  b.wait(b.send("t", *b.linear(nullptr, a, a, bias), type, constant(1), handles));
  b.wait(b.send("u", *b.matmul(nullptr, a, nullptr), type, constant(1), handles));
  EXPECT_EQ(messages(), "<input>: error: 'linear' in 'p2p' expects no bias, got %b\n"
                        "<input>: error: 'p2p' lacks an operand\n");
}

TEST_F(VerifyProgram, ScalarsUseWhatHasAValue) {
  ForOp *loop = b.forLoop("i", constant(0), constant(1));
  b.synchronize({nullptr, loop->index});
  b.synchronize({nullptr, b.scalars().addParameter("D")});
  EXPECT_EQ(messages(),
            "<input>: error: '%i' is not in scope here, expected 'rank' or the index of a "
            "loop that encloses this 'synchronize'\n"
            "<input>: error: 'D' is not in scope here, expected 'rank' or the index of a "
            "loop that encloses this 'synchronize'\n");
}

TEST_F(VerifyProgram, ScalarsCanBeComputed) {
  const Scalar *rank = b.scalars().rank();
  b.synchronize({nullptr, b.scalars().add(constant(INT64_MAX), constant(1))});
  b.synchronize({nullptr, b.scalars().add(rank, b.scalars().mod(rank, constant(0)))});
  EXPECT_EQ(messages(), "<input>: error: '9223372036854775807 + 1' overflows 64 bits\n"
                        "<input>: error: 'rank mod 0' divides by zero\n");
}

TEST_F(VerifyProgram, ComparisonsStandInConditionsOnly) {
  const Scalar *rank = b.scalars().rank();
  const Scalar *test = b.scalars().binary(ScalarKind::Lt, rank, constant(2));
  b.ifOp(test);
  b.ifOp(rank);
  b.ifOp(constant(2));
  b.ifOp(constant(1));
  b.synchronize({nullptr, test});
  b.ifOp(b.scalars().binary(ScalarKind::Eq, test, constant(1)));
  b.synchronize({nullptr, b.scalars().add(test, rank)});
  EXPECT_EQ(messages(), "<input>: error: expected a comparison, got 'rank'\n"
                        "<input>: error: expected a comparison, got '2'\n"
                        "<input>: error: expected a number, got the comparison 'rank < 2'\n"
                        "<input>: error: expected a number, got the comparison 'rank < 2'\n"
                        "<input>: error: expected a number, got the comparison 'rank < 2'\n");
}

TEST_F(VerifyProgram, LoopsHaveAnIndex) {
  b.forLoop("i", constant(0), constant(1))->index = b.scalars().addParameter("D");
  EXPECT_EQ(messages(), "<input>: error: expected a loop index, got 'D'\n");
}

TEST_F(VerifyProgram, DeclaredExtentsAreConstant) {
  TensorType type{DType::F32, {b.scalars().rank(), nullptr, constant(4)}};
  b.allocate("x", MemorySpace::Device, type);
  EXPECT_EQ(messages(), "<input>: error: axis 0 of %x has extent rank, expected a constant of at "
                        "least 1\n"
                        "<input>: error: axis 1 of %x has extent none, expected a constant "
                        "of at least 1\n");
}

TEST(VerifyModule, NamesAreUnique) {
  Module module;
  for (int i = 0; i < 2; ++i)
    module.programs.push_back(std::make_unique<Program>("p", "", 1));
  Diagnostics diags;
  EXPECT_FALSE(verify(module, diags));
  EXPECT_EQ(diags.str(), "<input>: error: redefinition of program '@p'\n"
                         "<input>: note: first defined here\n");
}

} // namespace
} // namespace braid::test
