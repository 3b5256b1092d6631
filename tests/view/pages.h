//===- tests/view/pages.h - pages for tests ---------------------------------------------------===//
#pragma once

#include "api/simulate/machines.h"
#include "api/view/pages.h"

#include <gtest/gtest.h>

namespace braid::test {

/// Compiles `text` for `ranks` ranks with the default options, and prepares the program for a page.
inline view::PrintedProgram printed(const std::string &text, int64_t ranks) {
  static std::vector<std::unique_ptr<Source>> kept;
  kept.push_back(parseSource("t.braid", text));
  CompileOptions options;
  options.ranks = ranks;
  Result<Compiled> compiled = compile(*kept.back(), options);
  EXPECT_TRUE(compiled.isOk()) << kept.back()->diags.str();
  Result<view::PrintedProgram> program = view::printAgain(*compiled);
  EXPECT_TRUE(program.isOk()) << program.status().message();
  return std::move(*program);
}

inline view::Page predicted(const view::PrintedProgram &program) {
  const Result<CostModel> model = findMachine("h200-4");
  EXPECT_TRUE(model.isOk()) << model.status().message();
  Result<view::Page> page = view::predictedPage(program, *model, {});
  EXPECT_TRUE(page.isOk()) << page.status().message();
  return std::move(*page);
}

constexpr const char *kGather = R"(fusion @gather(D = 4, M = 960, K = 256, N = 512) {
  mesh [0 .. D)
  %A = input bf16[DIDx{D}, M/D, K]
  %B = input bf16[K, N]
  %C = matmul %A, %B : bf16[Stream{D}, M/D, N]
  output %C
})";

} // namespace braid::test
