//===- tests/ir/round_trip_test.cpp - printed text parses to the same module ------------------===//

#include "tests/support/case_file.h"
#include "tests/support/random_fusion.h"
#include "tests/support/random_program.h"

#include "llvm/Support/raw_ostream.h"

#include <regex>
#include <set>
#include <sstream>

namespace braid::test {
namespace {

std::string printed(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(module, os);
  return os.str();
}

/// Returns all fields of all nodes, so that equality means more than equal text.
std::string fields(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  emitJson(module, os);
  return os.str();
}

class RoundTrip : public testing::TestWithParam<const char *> {};

TEST_P(RoundTrip, ParsesVerifiesAndPrintsTheSame) {
  Module first = parseOrFail(readFile(GetParam()));
  Diagnostics diags;
  EXPECT_TRUE(verify(first, diags)) << diags.str();
  Module second = parseOrFail(printed(first));
  EXPECT_EQ(printed(first), printed(second));
  EXPECT_EQ(fields(first), fields(second));
}

INSTANTIATE_TEST_SUITE_P(Files, RoundTrip,
                         testing::Values("examples/ag_linear.braid", "examples/ag_matmul.braid",
                                         "examples/ag_matmul_collective.braid",
                                         "examples/ag_matmul_column.braid",
                                         "examples/ag_matmul_hosts.braid",
                                         "examples/ag_reshard.braid", "examples/gated_mlp.braid",
                                         "examples/by_hand.braid", "examples/matmul_local.braid",
                                         "tests/ir/inputs/design.braid",
                                         "tests/ir/inputs/nodes.braid"));

/// Random texts are printed and parsed again. Every form of a sum and of a partial type occurs.
TEST(RoundTripOfRandomTexts, ParseVerifyAndPrintTheSame) {
  std::string all;
  for (uint64_t seed = 0; seed < 200; ++seed)
    for (const std::string &text :
         {randomProgram(seed), randomProgram(seed, {.hosts = true}), randomCase(seed).text,
          randomCase(seed, {.sums = true, .functions = true, .hosts = true}).text}) {
      Module first = parseOrFail(text);
      Diagnostics diags;
      EXPECT_TRUE(verify(first, diags)) << diags.str() << text;
      Module second = parseOrFail(printed(first));
      EXPECT_EQ(printed(first), printed(second));
      EXPECT_EQ(fields(first), fields(second));
      all += printed(first);
    }
  for (const char *form :
       {R"(  sum %\w+, %\w+\n)", R"(  sum %\w+, %\w+, %\w+\n)", R"(  sum %\w+, %\w+\[[^\n]*\]\n)",
        R"(  sum %\w+, %\w+\[[^\n]*\], %\w+\n)", R"(= matmul [^\n]* partial f32 : b?f16)",
        R"(= linear [^\n]* partial b?f16 : )", R"(= linear %\w+, %\w+, %\w+ partial )",
        R"(= gelu_tanh %\w+ : )", R"(= (multiply|add) %\w+, %\w+ : )", R"(= reshard %\w+ : )",
        R"(  mesh \[0 \.\. D\) of L\n)", R"(program @drawn mesh \[0 \.\. 4\) of 2\n)"})
    EXPECT_TRUE(std::regex_search(all, std::regex(form))) << form;
}

/// A text without comments, alignment or blank lines prints unchanged.
TEST(Print, KeepsTheLayoutOfTheDesign) {
  std::string program = R"(program @p implements @f mesh [0 .. 8)
    (%A: bf16[1, 128, 1024], %B: bf16[1024, 1024]) -> (%C: bf16[8, 128, 1024]) {
  %A_all = allocate symmetric bf16[8, 128, 1024]
  %h = share_mem_handles get %A_all
  for %i in 1 .. 8 {
    set_current_stream stream(%i mod 4)
    %block = select %A_all[(rank + %i) mod 8]
    if %i != 0 {
      %s = p2p send %block to (rank - %i) mod 8 via %h
      wait %s
    } else {
      synchronize stream(0)
    }
  }
}
)";
  EXPECT_EQ(printed(parseOrFail(program)), program);
}

/// In a program, `of N` is not printed if all ranks are on one host. In a fusion, it is printed
/// unless it is the same expression as the mesh size, because the values of parameters may change.
TEST(Print, HostsOfAMesh) {
  auto printedMesh = [](const std::string &mesh) {
    return printed(
        parseOrFail("fusion @f(D = 8, L = 8) { " + mesh + " %A = input f32[4] output %A }"));
  };
  EXPECT_EQ(printedMesh("mesh [0 .. D) of (D/2)"), "fusion @f(D = 8, L = 8) {\n"
                                                   "  mesh [0 .. D) of D/2\n"
                                                   "  %A = input f32[4]\n"
                                                   "  output %A\n"
                                                   "}\n");
  EXPECT_NE(printedMesh("mesh [0 .. D) of L").find("  mesh [0 .. D) of L\n"), std::string::npos);
  EXPECT_NE(printedMesh("mesh [0 .. D) of D").find("  mesh [0 .. D)\n"), std::string::npos);
  EXPECT_EQ(printed(parseOrFail("program @p mesh [0 .. 8) of 4 () -> () {}")),
            "program @p mesh [0 .. 8) of 4\n    () -> () {\n}\n");
  EXPECT_EQ(printed(parseOrFail("program @p mesh [0 .. 8) of 8 () -> () {}")),
            "program @p mesh [0 .. 8)\n    () -> () {\n}\n");
}

TEST(Print, CommentsAlignmentAndEmptyElseAreNotKept) {
  Module module = parseOrFail("program @p mesh [0 .. 2) () -> () { // here\n"
                              "  %m   = get_current_stream if rank == 0 {} else {}\n}");
  EXPECT_EQ(printed(module), "program @p mesh [0 .. 2)\n"
                             "    () -> () {\n"
                             "  %m = get_current_stream\n"
                             "  if rank == 0 {\n"
                             "  }\n"
                             "}\n");
}

TEST(Print, FusionsAndProgramsAreApartByABlankLine) {
  Module module = parseOrFail("program @p mesh [0 .. 1) () -> () {}"
                              "fusion @f { mesh [0 .. 1) %A = input f32[1] output %A }");
  EXPECT_EQ(printed(module), "fusion @f {\n"
                             "  mesh [0 .. 1)\n"
                             "  %A = input f32[1]\n"
                             "  output %A\n"
                             "}\n"
                             "\n"
                             "program @p mesh [0 .. 1)\n"
                             "    () -> () {\n"
                             "}\n");
}

TEST(Print, ParametersShowTheValuesInForce) {
  Module module = parseOrFail("fusion @f(D = 8, M = 64) { mesh [0 .. D) }");
  EXPECT_TRUE(module.fusions[0]->setParameter("M", -1));
  EXPECT_FALSE(module.fusions[0]->setParameter("N", 4));
  EXPECT_EQ(str(*module.fusions[0]), "fusion @f(D = 8, M = -1) {\n  mesh [0 .. D)\n}\n");
}

/// The corpus file contains all nodes, and each prints on one line.
TEST(Print, EveryNodeOnOneLine) {
  Module module = parseOrFail(readFile("tests/ir/inputs/nodes.braid"));
  std::set<OpKind> kinds;
  walk(module.programs[0]->body(), [&](const Op &op) {
    kinds.insert(op.kind());
    EXPECT_EQ(str(op).find('\n'), std::string::npos);
    EXPECT_NE(str(op).find(keyword(op).str()), std::string::npos);
  });
  size_t count = 0;
#define BRAID_OP(Kind, keyword, results, summary) ++count;
#include "ir/program_kinds.def"
  EXPECT_EQ(kinds.size(), count);
}

/// Returns the code blocks of the section `heading`, concatenated.
std::string codeOf(const std::string &page, const std::string &heading) {
  size_t begin = page.find(heading);
  EXPECT_NE(begin, std::string::npos) << heading;
  std::istringstream lines(page.substr(begin, page.find("\n## ", begin) - begin));
  std::string code;
  for (std::string line; std::getline(lines, line);)
    if (line.substr(0, 4) == "    ")
      code += line.substr(4) + "\n";
  return code;
}

/// The worked example of ir/README.md is valid, and causes the error message on the page if M is 7.
TEST(Readme, WorkedExample) {
  std::string code = codeOf(readFile("ir/README.md"), "## A worked example");
  size_t message = code.find("gather.braid:");
  ASSERT_NE(message, std::string::npos);
  std::string text = code.substr(0, message);
  Diagnostics diags("gather.braid", text);
  EXPECT_TRUE(verify(parse(diags), diags)) << diags.str();

  text.replace(text.find("M = 6"), 5, "M = 7");
  Diagnostics wrong("gather.braid", text);
  EXPECT_FALSE(verify(parse(wrong), wrong));
  EXPECT_EQ(wrong.str().substr(0, code.size() - message), code.substr(message));
}

} // namespace
} // namespace braid::test
