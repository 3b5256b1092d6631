//===- tests/api/nesting_test.cpp - stack usage of deeply nested texts ------------------------===//
//
// A thread may have as little as 128 KiB of stack (musl's default). All code that recurses over
// nested blocks or nested scalars must run on such a stack, even if a text reaches both limits of
// the parser.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/compile.h"
#include "api/compile/plans.h"
#include "ir/text/parser.h"

#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <pthread.h>

namespace braid {
namespace {

#ifdef NDEBUG
constexpr size_t kAllowed = size_t(128) << 10;
#else // frames of unoptimized code are larger
constexpr size_t kAllowed = size_t(512) << 10;
#endif

/// Runs `work` on a thread and returns the number of bytes of stack that it touched.
size_t stackOf(const std::function<void()> &work) {
  constexpr unsigned char kUntouched = 0xa5;
  std::vector<unsigned char> memory(size_t(1) << 20, kUntouched);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, memory.data(), memory.size()), 0);
  pthread_t thread;
  auto call = [](void *given) -> void * {
    (*static_cast<const std::function<void()> *>(given))();
    return nullptr;
  };
  const int error =
      pthread_create(&thread, &attributes, call, const_cast<std::function<void()> *>(&work));
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(error, 0);
  if (error == 0)
    pthread_join(thread, nullptr);
  const auto touched = std::find_if(memory.begin(), memory.end(),
                                    [](unsigned char byte) { return byte != kUntouched; });
  return static_cast<size_t>(memory.end() - touched);
}

std::string repeat(const std::string &text, int count) {
  std::string all;
  while (count-- > 0)
    all += text;
  return all;
}

/// Returns a sum that is not folded and whose tree is as deep as the sum is long.
std::string chain() { return "rank" + repeat(" + rank - rank", kMaxOperators / 2); }

std::string loops(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "for %i" + std::to_string(i) + " in 0 .. 1 {\n";
  return text;
}

std::string programOf(const std::string &before, const std::string &behind) {
  return "program @p mesh [0 .. 4) (%A: f32[4, 2]) -> (%C: f32[2]) {\n" + before +
         "%x = select %A[" + chain() + "]\nset %C, %x\n" + behind + "}\n";
}

struct DeepText {
  const char *name;
  std::string text;
};

std::vector<DeepText> deepTexts() {
  const int inner = kMaxNesting - 1; // the program's body is a block, too
  return {
      {"if", programOf(repeat("if rank >= 0 {\n", inner), repeat("}\n", inner))},
      {"for", programOf(loops(inner), repeat("}\n", inner))},
      {"else", programOf(repeat("if rank < 0 {} else {\n", inner), repeat("}\n", inner))},
      {"else if", programOf(repeat("if rank < 0 {} else ", inner - 1) + "{\n", "}\n")},
      {"parentheses", programOf("%y = select %A[" + repeat("(", kMaxNesting) + "rank" +
                                    repeat(")", kMaxNesting) + "]\n",
                                "")},
      {"minus", programOf("%y = select %A[" + repeat("-", kMaxNesting) + "rank]\n", "")},
      {"fusion", "fusion @f(D = 4, M = 8) {\nmesh [0 .. D)\n%A = input f32[DIDx{D}, M/D" +
                     repeat(" + M - M", kMaxOperators / 2 - 1) + ", " + repeat("(", kMaxNesting) +
                     "M" + repeat(")", kMaxNesting) +
                     "]\n%B = input f32[M, 2]\n"
                     "%C = matmul %A, %B : f32[Stream{D}, M/D, 2]\noutput %C\n}\n"},
  };
}

TEST(Nesting, DeepestTextsNeedLittleStack) {
  for (const DeepText &deep : deepTexts()) {
    std::unique_ptr<Source> source;
    std::optional<Compiled> compiled;
    std::string printed;
    llvm::raw_string_ostream os(printed);
    const std::pair<const char *, std::function<void()>> walks[] = {
        {"parse", [&] { source = parseSource("t.braid", deep.text); }},
        {"verify, lower",
         [&] {
           if (Result<Compiled> result = compile(*source, {}))
             compiled = *result;
         }},
        {"print", [&] { os << str(*compiled->program); }},
        {"print JSON", [&] { emitJson(source->module, os); }},
        {"print a graph", [&] { emitDot(source->module, os); }},
        {"specialise", [&] { EXPECT_TRUE(makePlans(*compiled).isOk()); }},
        {"check", [&] { EXPECT_TRUE(checkProgram(*compiled, {}).isOk()); }},
        {"destroy", [&] { source.reset(); }},
    };
    for (const auto &[walk, work] : walks) {
      EXPECT_LE(stackOf(work), kAllowed) << deep.name << ": " << walk;
      ASSERT_TRUE(!source || !source->diags.hasErrors()) << deep.name << source->diags.str();
    }
    ASSERT_TRUE(compiled) << deep.name;
  }
}

} // namespace
} // namespace braid
