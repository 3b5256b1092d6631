//===- tests/api/compile_test.cpp - compile() -------------------------------------------------===//

#include "api/compile/compile.h"
#include "tests/support/configured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace {

using testing::HasSubstr;

TEST(ResultDeathTest, SaysWhyThereIsNoValue) {
  Result<std::string> failed = Status(StatusCode::BadInput, "no mesh");
  EXPECT_DEATH((void)*failed, "braid: expected a value, got a failure: no mesh");
  EXPECT_DEATH((void)failed->size(), "no mesh");
}

constexpr const char *kFusion = R"(fusion @gather(D = 4, ROWS = 8) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, ROWS/D, 3]
  %B = input f32[3, 5]
  %C = matmul %A, %B : f32[Stream{D}, ROWS/D, 5]
  output %C
}
)";

constexpr const char *kProgram = R"(program @p mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  set %C, %A
}
)";

/// Returns the message of compile()'s failure, or the first printed line if it has a location.
std::string failure(const std::string &text, const CompileOptions &options) {
  auto source = parseSource("t.braid", text);
  Result<Compiled> compiled = compile(*source, options);
  if (compiled)
    return "compiled";
  EXPECT_NE(compiled.status().code(), StatusCode::Internal);
  std::string message =
      source->diags.hasErrors() ? source->diags.str() : compiled.status().message();
  return message.substr(0, message.find('\n'));
}

TEST(Compile, TakesTheOnlyProgramOrFusion) {
  auto source = parseSource("t.braid", kFusion);
  Result<Compiled> compiled = compile(*source, {});
  ASSERT_TRUE(compiled.isOk());
  EXPECT_TRUE(compiled->isLowered);
  EXPECT_EQ(compiled->fusion->name(), "gather");
  EXPECT_EQ(compiled->program->name(), "gather_pairwise");
  EXPECT_EQ(compiled->program->ranks(), 4);

  auto both = parseSource("t.braid", std::string(kFusion) + kProgram);
  Result<Compiled> program = compile(*both, {});
  ASSERT_TRUE(program.isOk());
  EXPECT_FALSE(program->isLowered);
  EXPECT_EQ(program->fusion, nullptr);
}

TEST(Compile, SetsParametersAndRanks) {
  auto source = parseSource("t.braid", kFusion);
  Result<Compiled> compiled = compile(*source, {.ranks = 2, .parameters = {{"ROWS", 12}}});
  ASSERT_TRUE(compiled.isOk());
  EXPECT_EQ(compiled->program->params()[0]->type.str(), "f32[1, 6, 3]");
  EXPECT_EQ(compiled->program->ranks(), 2);
}

TEST(Compile, SaysWhichEntriesThereAre) {
  EXPECT_EQ(failure("", {}), "t.braid:1:1: error: expected 'fusion' or 'program', got end of file");
  std::string two = std::string(kFusion) + "fusion @g {\n mesh [0 .. 1)\n %A = input f32[2, 2]\n"
                                           " output %A\n}\n";
  EXPECT_EQ(failure(two, {}), "'t.braid' contains @gather, @g; specify which one is the entry");
  EXPECT_EQ(failure(two, {.entry = "@gahter"}),
            "'t.braid' has no @gahter (did you mean 'gather'?)");
  EXPECT_EQ(failure(two, {.entry = "gather"}), "compiled");
}

TEST(Compile, RefusesParametersThatDoNotExistOrContradict) {
  EXPECT_EQ(failure(kFusion, {.parameters = {{"ROW", 1}}}),
            "t.braid:1:1: error: @gather has no parameter 'ROW' (did you mean 'ROWS'?)");
  EXPECT_EQ(failure(kFusion, {.ranks = 2, .parameters = {{"D", 4}}}),
            "t.braid:2:3: error: expected D=2, got 4: D is the mesh size, and ranks=2");
  EXPECT_EQ(failure(kFusion, {.parameters = {{"ROWS", 4}, {"D", 2}, {"ROWS", 4}}}),
            "t.braid:1:1: error: expected only one value for 'ROWS' of @gather, got 4 and 4");
  EXPECT_THAT(failure(kFusion, {.ranks = 3}), HasSubstr("8 / 3"));
  EXPECT_THAT(failure(kFusion, {.ranks = 0}), HasSubstr("t.braid:2:3: error: "));
  EXPECT_THAT(failure(kFusion, {.ranks = -1}), HasSubstr("t.braid:2:3: error: "));
}

TEST(Compile, RefusesRanksThatAFixedMeshDoesNotHave) {
  std::string text = kFusion;
  text.replace(text.find("0 .. D"), 6, "0 .. 4");
  EXPECT_EQ(failure(text, {.ranks = 8}),
            "t.braid:2:3: error: expected ranks=4, the size of the mesh, got 8; to "
            "choose the number of ranks, make the mesh size a parameter: mesh [0 .. D)");
  EXPECT_EQ(failure(text, {.ranks = 4}), "compiled");
  EXPECT_EQ(failure(kProgram, {.ranks = 3}),
            "t.braid:1:1: error: expected ranks=2, the size of the program's mesh, got 3");
}

TEST(Compile, RefusesFlagsThatSteerLoweringForAProgram) {
  auto message = [](const std::string &flag) {
    return flag +
           " applies to a fusion, but @p in 't.braid' is a program, which has already been lowered";
  };
  EXPECT_EQ(failure(kProgram, {.parameters = {{"M", 1}}}), message("parameter M"));
  EXPECT_EQ(failure(kProgram, {.schedule = test::configured("ring")}), message("schedule"));
  EXPECT_EQ(failure(kProgram, {.schedule = test::configured("C=ring")}), message("schedule"));
  for (const char *knob : {"protocol=get", "streams=2", "chunks=2", "tail-split=2"})
    EXPECT_EQ(failure(kProgram, {.schedule = test::configured(knob)}),
              message(llvm::StringRef(knob).split('=').first.str()));
  EXPECT_EQ(failure(kProgram, {.schedule = test::configured("launch=graph;copies=kernel")}),
            "compiled");
}

} // namespace
} // namespace braid
