//===- tests/ir/verify_built_test.cpp - rules that only a builder can break -------------------===//
//
// In a text, the parser reports these errors before the verifier runs. Errors in programs that C++
// code builds are reported only by the verifier.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/builder.h"
#include "tests/support/case_file.h"

namespace braid::test {
namespace {

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

} // namespace
} // namespace braid::test
