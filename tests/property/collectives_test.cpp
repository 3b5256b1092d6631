//===- tests/property/collectives_test.cpp - collectives over peer memory ---------------------===//

#include "api/compile/plans.h"
#include "tests/property/thinning.h"
#include "tests/support/collective_case.h"
#include "tests/support/elements.h"

#include "tests/support/local_mesh.h"
#include "llvm/ADT/STLExtras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::test {
namespace {

/// A rank's tensors in one run. Results are filled with NaNs.
struct Operands {
  std::vector<char> input;
  std::vector<std::vector<char>> results;
};

std::vector<Operands> operandsOf(const CollectiveCase &c, int64_t run) {
  std::vector<Operands> tensors;
  for (int64_t rank = 0; rank < c.ranks; ++rank)
    tensors.push_back(
        {encodeAll(c.dtype, c.input(rank, run)),
         std::vector<std::vector<char>>(
             3, std::vector<char>(static_cast<size_t>(c.resultElements() * sizeOf(c.dtype)),
                                  '\xff'))});
  return tensors;
}

void expectResults(const CollectiveCase &c, int64_t run, const std::vector<Operands> &tensors) {
  for (int64_t rank = 0; rank < c.ranks; ++rank)
    if (const auto expected = c.expected(rank, run)) {
      for (const std::vector<char> &result : tensors[static_cast<size_t>(rank)].results)
        EXPECT_EQ(decodeAll(c.dtype, result), *expected) << "rank " << rank << ", run " << run;
    }
}

/// In some of these programs, not every rank writes a result. The checker reports this only if it
/// finds no other violation, so this violation is accepted here.
void expectSafe(const Compiled &compiled) {
  const Result<CheckReport> report = checkProgram(compiled, {});
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_TRUE(report->isSafe() || report->violation->rule == CheckRule::Result) << str(*report);
}

/// Runs the collective three times on CPU ranks, and compares the results.
void run(const CollectiveCase &c, const Compiled &compiled) {
  const BackendRegistry registry = builtinBackends();
  auto mesh = LocalMesh::create(*registry.find("cpu"), {.ranks = c.ranks});
  ASSERT_TRUE(mesh.isOk());
  ASSERT_TRUE((*mesh)->prepare(compiled).isOk());
  std::vector<std::vector<Operands>> runs;
  for (int64_t run = 0; run < 3; ++run) {
    runs.push_back(operandsOf(c, run));
    std::vector<RunArguments> arguments;
    for (Operands &tensors : runs.back()) {
      RunArguments &each = arguments.emplace_back();
      each.inputs = {tensors.input.data()};
      for (std::vector<char> &result : tensors.results)
        each.outputs.push_back(result.data());
    }
    (*mesh)->run(arguments);
  }
  ASSERT_TRUE((*mesh)->synchronize().isOk());
  for (int64_t run = 0; run < 3; ++run)
    expectResults(c, run, runs[static_cast<size_t>(run)]);
}

void runCase(const CollectiveCase &c) {
  SCOPED_TRACE(c.str() + "\n" + c.text());
  const std::unique_ptr<Source> source = parseSource("c.braid", c.text());
  for (const char *way : {"transport=peer-memory", "transport=messages"}) {
    SCOPED_TRACE(way);
    const Result<Compiled> compiled = compile(*source, {.schedule = *Configurations::parse(way)});
    ASSERT_TRUE(compiled.isOk()) << source->diags.str() << compiled.status().message();
    expectSafe(*compiled);
    run(c, *compiled);
  }
}

TEST(Collectives, GiveWhatTheyShouldOnOneToFiveRanks) {
  Thinning thinning;
  for (int64_t ranks = 1; ranks <= 5; ++ranks)
    for (const CollectiveCase &c : collectiveCases(ranks, DType::F32, {1, 7}))
      if (thinning.choosesNext())
        runCase(c);
}

TEST(Collectives, GiveWhatTheyShouldOfAllTypes) {
  Thinning thinning;
  for (DType dtype : {DType::BF16, DType::F16, DType::F64})
    for (const CollectiveCase &c : collectiveCases(3, dtype, {5}))
      if (thinning.choosesNext())
        runCase(c);
}

std::string messageOf(const std::string &node, Transport transport = Transport::PeerMemory) {
  const std::unique_ptr<Source> source =
      parseSource("c.braid", "program @c mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[8]) {\n  " + node +
                                 "\n  wait %c\n}\n");
  const Result<Compiled> compiled = compile(*source, {.transport = transport});
  if (!compiled)
    return source->diags.str();
  const Result<CheckReport> report = checkProgram(*compiled, {});
  return source->diags.hasErrors() ? source->diags.str() : report.status().message();
}

TEST(Collectives, SizesMustFitTheTeam) {
  using testing::HasSubstr;
  EXPECT_THAT(messageOf("%c = collective reduce_scatter sum %C, %A"),
              HasSubstr("c.braid:2:3: error: reduce_scatter of f32[4] into f32[8] among 2 ranks: "
                        "expected the destination to have 1/2 as many elements as the source on "
                        "rank 0"));
  EXPECT_THAT(messageOf("%c = collective broadcast %C, %A root 0"),
              HasSubstr("expected the destination to have as many elements as the source"));
  EXPECT_THAT(messageOf("%c = collective allgather %C, %A team [1]"),
              HasSubstr("among 1 ranks: expected the destination to have 1 times as many"));
}

TEST(Collectives, OverPeersMemoryThereAreSumsOnly) {
  const std::string node = "%D = allocate device f32[4]\n  %c = collective allreduce max %D, %A";
  EXPECT_THAT(messageOf(node), testing::HasSubstr("c.braid:3:3: collective allreduce max "
                                                  "requires a backend that sends messages"));
  EXPECT_THAT(messageOf(node, Transport::Messages), testing::Not(testing::HasSubstr("requires")));
}

} // namespace
} // namespace braid::test
