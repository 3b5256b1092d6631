//===- tests/ir/bad_input_test.cpp - any bytes are either accepted or reported ----------------===//

#include "tests/support/case_file.h"

#include <random>

namespace braid::test {
namespace {

std::string repeated(const std::string &text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i)
    all += text;
  return all;
}

std::string inProgram(const std::string &body) {
  return "program @p mesh [0 .. 4) (%A: f32[8]) -> () {\n" + body + "\n}\n";
}

std::string messages(const std::string &text) {
  Diagnostics diags("text", text);
  Module module = parse(diags);
  if (!diags.hasErrors())
    verify(module, diags);
  EXPECT_FALSE(diags.str().empty() && diags.hasErrors());
  return brief(diags);
}

/// A thousand and a hundred thousand levels result in the same single message.
TEST(BadInput, DeepNestingIsAnErrorAndNoOverflow) {
  for (int depth : {1000, 100000}) {
    std::string close = repeated("}", depth);
    std::string loops = "blocks are nested too deeply; expected at most 64 levels\n";
    EXPECT_EQ(messages(inProgram(repeated("if rank == 0 {\n", depth) + close)),
              "65:14: error: " + loops);
    EXPECT_EQ(messages(inProgram(repeated("if rank == 0 {} else ", depth) + "{}")),
              "2:1337: error: " + loops);
    std::string scalars =
        "error: parentheses and minus signs are nested too deeply; expected at most 64 levels\n";
    EXPECT_EQ(messages(inProgram("%x = select %A[" + repeated("(", depth) + "]")),
              "2:80: " + scalars);
    EXPECT_EQ(messages(inProgram("%x = select %A[" + repeated("-", depth) + "rank]")),
              "2:80: " + scalars);
    EXPECT_EQ(messages("fusion @f {\nmesh [0 .. " + repeated("(", depth) + ")\n}"),
              "2:76: " + scalars);
  }
}

TEST(BadInput, DeepNestingWithoutAnEnd) {
  std::string text = messages(inProgram(repeated("group {\n", 1000)));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "65:7: error: blocks are nested too deeply; expected at most 64 levels");
}

TEST(BadInput, AsDeepAsAllowed) {
  std::string text = inProgram(repeated("for %i in 0 .. 1 {\n", 1) +
                               repeated("if rank == 0 {\n", 62) + repeated("}", 63));
  EXPECT_EQ(messages(text), "");
  std::string nested = repeated("(", 64) + "rank" + repeated(")", 64);
  EXPECT_EQ(messages(inProgram("%x = select %A[" + nested + "]")), "");
}

TEST(BadInput, LongExpressions) {
  std::string sum = "rank" + repeated(" - rank", 200);
  EXPECT_EQ(messages(inProgram("%x = select %A[" + sum + "]")), "");
  EXPECT_EQ(messages(inProgram("%x = select %A[" + sum + " - rank]")),
            "2:1421: error: the expression is too long; expected at most 200 operators\n");
}

TEST(BadInput, ManyErrorsStopAtAHundred) {
  Diagnostics diags("text", inProgram(repeated("foo\n", 5000)));
  parse(diags);
  EXPECT_EQ(diags.all().size(), 101u);
  EXPECT_TRUE(diags.isFull());
}

TEST(BadInput, ManyErrorsOfTheVerifierStopAtAHundred) {
  Diagnostics diags("text", inProgram(repeated("synchronize stream(-1)\n", 5000)));
  Module module = parse(diags);
  EXPECT_FALSE(verify(module, diags));
  EXPECT_EQ(diags.all().size(), 101u);
  EXPECT_FALSE(verify(module, diags)) << "no room for messages is no success";
}

TEST(BadInput, ANameOfOtherAlphabetsIsOneError) {
  EXPECT_EQ(messages("fusion @f { mesh [0 .. 1) %Ä = input f32[1] output %Ä }"),
            "1:27: error: expected a name consisting of ASCII letters, digits and '_' after '%'\n"
            "1:53: error: expected a name consisting of ASCII letters, digits and '_' after '%'\n");
}

TEST(BadInput, BinaryFilesAreReportedOnce) {
  EXPECT_EQ(messages(std::string("fusion @f {\n  \0\0\xFF\xFE }", 20)),
            "2:3: error: expected a text file, got a binary file (found the byte 0x00)\n");
  EXPECT_EQ(messages("\xFF\xFE\xFD"), "1:1: error: unexpected byte 0xFF\n");
  EXPECT_EQ(messages("\xEF\xBB\xBF"
                     "fusion @f { mesh [0 .. 1) %A = input f32[1] output %A }"),
            "")
      << "a byte order mark is no garbage";
}

TEST(BadInput, CarriageReturnsAreBlanks) {
  EXPECT_EQ(messages("fusion @f {\r\n  mesh [0 .. 1)\r\n  %A = input f32[1]\r\n"
                     "  output %A\r\n}\r\n"),
            "");
}

/// Every prefix of every example is accepted, or reported with a location.
TEST(BadInput, TruncatedAtEveryByte) {
  for (const char *path : {"examples/ag_linear.braid", "examples/ag_matmul_collective.braid",
                           "examples/ag_matmul_column.braid", "examples/by_hand.braid",
                           "tests/ir/inputs/nodes.braid"}) {
    std::string text = readFile(path);
    for (size_t length = 0; length < text.size(); ++length) {
      Diagnostics diags("text", text.substr(0, length));
      Module module = parse(diags);
      verify(module, diags);
      for (const Diagnostic &message : diags.all())
        ASSERT_TRUE(message.location.isKnown()) << path << " up to " << length;
    }
  }
}

/// Changes one random byte in each round. The text must be accepted, or an error must be reported.
TEST(BadInput, OneByteChanged) {
  std::string text = readFile("tests/ir/inputs/nodes.braid");
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    changed[random() % text.size()] = static_cast<char>(random() % 256);
    Diagnostics diags("text", changed);
    Module module = parse(diags);
    if (!diags.hasErrors())
      verify(module, diags);
    for (const Diagnostic &message : diags.all())
      EXPECT_TRUE(message.location.isKnown()) << changed;
  }
}

TEST(BadInput, RandomBytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 400, ' ');
    for (char &byte : text)
      byte = static_cast<char>(random() % 256);
    Diagnostics diags("text", text);
    parse(diags);
    EXPECT_TRUE(diags.hasErrors());
    EXPECT_FALSE(diags.str().empty());
  }
}

} // namespace
} // namespace braid::test
