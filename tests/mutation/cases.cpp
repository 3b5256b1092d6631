//===- tests/mutation/cases.cpp - generated programs to make mutants of -----------------------===//

#include "tests/mutation/cases.h"

#include <fmt/format.h>

namespace braid::test {
namespace {

struct Operation {
  const char *name;
  std::vector<const char *> lines;
};

/// Extents are as small as they can be without blocks or rows being alike: mutants run many
/// thousand times.
const std::vector<Operation> kOperations = {
    {"matmul",
     {"%A = input f32[DIDx{D}, M, K]", "%B = input f32[K, N]",
      "%C = matmul %A, %B : f32[Stream{D}, M, N]", "output %C"}},
    {"linear+bias",
     {"%A = input f32[DIDx{D}, M, K]", "%w = input f32[N, K]", "%b = input f32[N]",
      "%C = linear %A, %w, %b : f32[Stream{D}, M, N]", "output %C"}},
    {"columns",
     {"%A = input f32[DIDx{D}, M, K]", "%B = input f32[K, DIDx{D}, N]",
      "%C = matmul %A, %B : f32[Stream{D}, M, DIDx{D}, N]", "output %C"}},
    {"two",
     {"%A = input f32[DIDx{D}, M, K]", "%B = input f32[K, N]", "%w = input f32[3, N]",
      "%b = input f32[3]", "%C = matmul %A, %B : f32[Stream{D}, M, N]",
      "%E = linear %C, %w, %b : f32[Stream{D}, M, 3]", "output %E"}},
    {"gathers",
     {"%A = input f32[DIDx{D}, M, K]", "%X = input f32[DIDx{D}, M, K]", "%B = input f32[K, N]",
      "%Y = input f32[K, 3]", "%C = matmul %A, %B : f32[Stream{D}, M, N]",
      "%Z = matmul %X, %Y : f32[Stream{D}, M, 3]", "output %C, %Z"}},
    {"chain",
     {"%A = input f32[DIDx{D}, M, K]", "%B = input f32[K, N]", "%w = input f32[3, N]",
      "%v = input f32[N, 3]", "%C = matmul %A, %B : f32[Stream{D}, M, N]",
      "%E = linear %C, %w : f32[Stream{D}, M, 3]", "%G = linear %E, %v : f32[Stream{D}, M, N]",
      "output %G"}},
    {"local",
     {"%A = input f32[3, M, K]", "%B = input f32[K, N]",
      "%C = matmul %A, %B : f32[Stream{3}, M, N]", "output %C"}},
};

std::string textOf(const std::string &operation, int64_t ranks, int64_t rows) {
  std::string text =
      fmt::format("fusion @f(D = {}, M = {}, K = 3, N = 2) {{\n  mesh [0 .. D)\n", ranks, rows);
  for (const Operation &each : kOperations)
    for (const char *line : each.lines)
      if (each.name == operation)
        text += fmt::format("  {}\n", line);
  return text + "}\n";
}

} // namespace

Result<Case> makeCase(const CaseOptions &options) {
  Case made;
  made.name =
      fmt::format("{} --ranks {} --schedule {} --protocol {} --streams {} --chunks {} a step",
                  options.operation, options.ranks, name(options.schedule).str(),
                  name(options.protocol).str(), options.streams, options.chunksPerStep) +
      (options.transfers == Transfers::Shared ? " --transfers shared" : "") +
      (options.waveRows > 0 ? fmt::format(" --wave-rows {}", options.waveRows) : "") +
      (options.taper > 1 ? fmt::format(" --taper {}", options.taper) : "");
  const int64_t rows = options.waveRows > 0 ? 5 : 2; // so that products leave some of their blocks
  made.source = parseSource("mutated.braid", textOf(options.operation, options.ranks, rows));
  CompileOptions compileOptions;
  compileOptions.schedule = options.schedule;
  compileOptions.protocol = options.protocol;
  compileOptions.streams = options.streams;
  compileOptions.transfers = options.transfers;
  compileOptions.waveRows = options.waveRows;
  compileOptions.taper = options.taper;
  int64_t steps = options.operation == "local" ? 3 : options.ranks;
  compileOptions.chunks = options.chunksPerStep * steps;
  Result<Compiled> compiled = compile(*made.source, compileOptions);
  if (!compiled)
    return compiled.status().annotated(made.name + made.source->diags.str());
  made.program = str(*compiled->program);
  made.fusion = compiled->fusion;
  made.reference = std::make_unique<Reference>(*made.fusion, 1);
  return made;
}

std::vector<CaseOptions> representativeCases() {
  constexpr auto kGet = Protocol::Get, kPut = Protocol::Put;
  constexpr auto kPairwise = Schedule::Pairwise, kHop = Schedule::Hop, kNone = Schedule::None;
  return {
      {"matmul", 2, kPairwise, kGet, 1, 1},
      {"matmul", 2, kPairwise, kPut, 2, 1},
      {"matmul", 3, kPairwise, kGet, 3, 2},
      {"matmul", 3, kPairwise, kPut, 2, 2},
      {"matmul", 4, kPairwise, kGet, 2, 1},
      {"matmul", 2, kHop, kGet, 1, 1},
      {"matmul", 3, kHop, kPut, 2, 1},
      {"matmul", 3, kHop, kGet, 3, 2},
      {"matmul", 4, kHop, kPut, 3, 1},
      {"matmul", 2, kNone, kPut, 1, 2},
      {"matmul", 3, kNone, kGet, 2, 1},
      {"linear+bias", 2, kPairwise, kPut, 3, 2},
      {"linear+bias", 3, kPairwise, kGet, 1, 1},
      {"linear+bias", 3, kHop, kGet, 2, 1},
      {"columns", 2, kHop, kPut, 2, 2},
      {"columns", 3, kPairwise, kPut, 2, 1},
      {"two", 2, kPairwise, kGet, 2, 2},
      {"two", 3, kHop, kPut, 2, 1},
      {"two", 2, kNone, kGet, 3, 1},
      {"local", 2, kPairwise, kGet, 2, 1},
      {"local", 3, kNone, kGet, 3, 2},
      {"gathers", 2, kPairwise, kGet, 2, 1},
      {"gathers", 2, kHop, kPut, 1, 1},
      {"chain", 2, kPairwise, kPut, 2, 2},
      {"chain", 2, kNone, kGet, 1, 1},
      {"matmul", 3, kPairwise, kPut, 4, 1, Transfers::Shared},
      {"matmul", 2, kPairwise, kGet, 3, 2, Transfers::Shared},
      {"matmul", 3, Schedule::Burst, kPut, 3, 1},
      {"two", 2, Schedule::Burst, kGet, 2, 2},
      {"matmul", 4, Schedule::Doubling, kPut, 4, 1},
      {"two", 2, Schedule::Doubling, kGet, 2, 2},
      {"matmul", 4, Schedule::Doubling, kPut, 4, 1, Transfers::Each, 3, 2},
      {"matmul", 3, Schedule::Fused, kPut, 1, 1},
      {"linear+bias", 2, Schedule::Fused, kGet, 1, 2},
  };
}

std::vector<CaseOptions> allCases() {
  std::vector<CaseOptions> all;
  for (const Operation &operation : kOperations)
    for (int64_t ranks : {2, 3, 4})
      for (Schedule schedule : allSchedules())
        for (Protocol protocol : {Protocol::Get, Protocol::Put})
          for (int64_t streams : {1, 2, 3})
            for (int64_t chunks : {1, 2})
              all.push_back({operation.name, ranks, schedule, protocol, streams, chunks});
  return all;
}

} // namespace braid::test
