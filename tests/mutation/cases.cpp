//===- tests/mutation/cases.cpp - programs that are mutated -----------------------------------===//

#include "tests/mutation/cases.h"
#include "tests/support/configured.h"
#include "tests/support/reductions.h"

#include <fmt/format.h>

namespace braid::test {
namespace {

struct Operation {
  const char *name;
  std::vector<const char *> lines;
};

/// Extents are small, because mutants run many thousands of times, but large enough to distinguish
/// blocks and rows.
const std::vector<Operation> kOperations = {
    {"matmul",
     {"%A = input f32[DIDx{D}, M, K]", "%B = input f32[K, N]",
      "%C = matmul %A, %B : f32[Stream{D}, M, N]", "output %C"}},
    {"uneven",
     {"%A = input f32[DIDx{D}, ceil(M * D - 1, D), K]", "%B = input f32[K, N]",
      "%C = matmul %A, %B : f32[Stream{D}, ceil(M * D - 1, D), N]", "output %C"}},
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
    {"functions",
     {"%A = input f64[DIDx{D}, M, K]", "%B = input f64[K, N]", "%E = input f64[K, N]",
      "%U = matmul %A, %B : f64[Stream{D}, M, N]", "%V = matmul %A, %E : f64[Stream{D}, M, N]",
      "%S = silu %U : f64[Stream{D}, M, N]", "%G = multiply %S, %V : f64[Stream{D}, M, N]",
      "%P = gelu_tanh %V : f64[Stream{D}, M, N]", "output %G, %P"}},
    {"reshard",
     {"%A = input f32[DIDx{D}, M, K]", "%B = input f32[K, N]",
      "%X = reshard %A : f32[Stream{D}, M, K]", "%C = matmul %X, %B : f32[Stream{D}, M, N]",
      "output %C, %X"}},
    {"local",
     {"%A = input f32[3, M, K]", "%B = input f32[K, N]",
      "%C = matmul %A, %B : f32[Stream{3}, M, N]", "output %C"}},
};

/// Reductions that are lowered. tests/support/reductions.h contains the hand-written ones.
const std::vector<Operation> kReductions = {
    {"scatter",
     {"%A = input f32[D, M, DIDx{D}, K]", "%B = input f32[DIDx{D}, K, N]",
      "%C = matmul %A, %B : f32[DIDx{D}, M, N]", "output %C"}},
    {"all-reduce",
     {"%A = input f32[M * D, DIDx{D}, K]", "%w = input f32[N, DIDx{D}, K]", "%b = input f32[N]",
      "%C = linear %A, %w, %b : f32[M * D, N]", "output %C"}},
    {"function of a sum",
     {"%A = input f64[D, M, DIDx{D}, K]", "%B = input f64[DIDx{D}, K, N]",
      "%R = input f64[DIDx{D}, M, N]", "%C = matmul %A, %B : f64[DIDx{D}, M, N]",
      "%S = silu %C : f64[DIDx{D}, M, N]", "%G = multiply %S, %R : f64[DIDx{D}, M, N]",
      "output %G"}},
    {"functions of a sum for all",
     {"%A = input f64[M * D, DIDx{D}, K]", "%B = input f64[DIDx{D}, K, N]",
      "%C = matmul %A, %B : f64[M * D, N]", "%S = silu %C : f64[M * D, N]",
      "%G = multiply %S, %C : f64[M * D, N]", "output %G, %C"}},
    {"sum of products",
     {"%A = input f32[D, M, DIDx{D}, K]", "%X = input f32[D, M, DIDx{D}, 2]",
      "%B = input f32[DIDx{D}, K, N]", "%Y = input f32[DIDx{D}, 2, N]",
      "%C = matmul %A, %B, %X, %Y : f32[DIDx{D}, M, N]", "output %C"}},
    {"uneven all-reduce",
     {"%A = input f32[M * D - 1, DIDx{D}, K]", "%B = input f32[DIDx{D}, K, N]",
      "%C = matmul %A, %B : f32[M * D - 1, N]", "output %C"}},
};

std::string textOf(const std::string &operation, int64_t ranks, int64_t rows) {
  std::string text =
      fmt::format("fusion @f(D = {}, M = {}, K = 3, N = 2) {{\n  mesh [0 .. D)\n", ranks, rows);
  for (const auto *operations : {&kOperations, &kReductions})
    for (const Operation &each : *operations)
      for (const char *line : each.lines)
        if (each.name == operation)
          text += fmt::format("  {}\n", line);
  return text + "}\n";
}

} // namespace

Result<Case> makeCase(const CaseOptions &options) {
  Case made;
  made.name = fmt::format("{} --ranks {} --schedule '{}'", options.operation, options.ranks,
                          options.schedule);
  const bool isByHand = !options.text.empty();
  const CompileOptions compileOptions{.schedule = configured(isByHand ? "" : options.schedule)};
  made.source = parseSource("mutated.braid",
                            isByHand ? options.text : textOf(options.operation, options.ranks, 2));
  Result<Compiled> compiled = compile(*made.source, compileOptions);
  if (!compiled)
    return compiled.status().annotated(made.name + made.source->diags.str());
  made.program = str(*compiled->program);
  made.fusion = compiled->fusion;
  // The reference's inputs cannot distinguish functions of one operand.
  const bool isSmall = isByHand || llvm::any_of(made.fusion->nodes(), [](const auto &node) {
                         return node->kind == FusionOpKind::Pointwise;
                       });
  made.oracle = isSmall ? smallOracle(*made.fusion) : referenceOracle(*made.fusion);
  return made;
}

std::vector<CaseOptions> representativeCases() {
  return {
      {"matmul", 2, "pairwise;protocol=get;streams=1"},
      {"matmul", 2, "pairwise;protocol=put;streams=2"},
      {"matmul", 3, "pairwise;protocol=get;streams=3;chunks=2"},
      {"matmul", 3, "pairwise;protocol=put;streams=2;chunks=2"},
      {"matmul", 4, "pairwise;protocol=get;streams=2"},
      {"matmul", 2, "ring;protocol=get;streams=1"},
      {"matmul", 3, "ring;protocol=put;streams=2"},
      {"matmul", 3, "ring;protocol=get;streams=3;chunks=2"},
      {"matmul", 4, "ring;protocol=put;streams=3"},
      {"matmul", 2, "sequential;protocol=put;streams=1;chunks=2"},
      {"matmul", 3, "sequential;protocol=get;streams=2"},
      {"uneven", 2, "pairwise;protocol=put;streams=2;chunks=2"},
      {"uneven", 3, "ring;protocol=get;streams=2"},
      {"uneven", 4, "coalesced;protocol=put;streams=3"},
      {"uneven", 2, "bulk;protocol=get;streams=1"},
      {"linear+bias", 2, "pairwise;protocol=put;streams=3;chunks=2"},
      {"linear+bias", 3, "pairwise;protocol=get;streams=1"},
      {"linear+bias", 3, "ring;protocol=get;streams=2"},
      {"columns", 2, "ring;protocol=put;streams=2;chunks=2"},
      {"columns", 3, "pairwise;protocol=put;streams=2"},
      {"two", 2, "pairwise;protocol=get;streams=2;chunks=2"},
      {"two", 3, "ring;protocol=put;streams=2"},
      {"functions", 2, "pairwise;stepwise=first;placement=shared;protocol=put;streams=3"},
      {"two", 2, "sequential;protocol=get;streams=3"},
      {"functions", 2, "pairwise;protocol=get;streams=2;chunks=2"},
      {"functions", 3, "ring;protocol=put;streams=2"},
      {"functions", 2, "coalesced;protocol=put;streams=2"},
      {"reshard", 2, "pairwise;protocol=put;streams=2;chunks=2"},
      {"reshard", 3, "sequential;protocol=get;streams=2"},
      {"local", 2, "pairwise;protocol=get;streams=2"},
      {"local", 3, "sequential;protocol=get;streams=3;chunks=2"},
      {"gathers", 2, "pairwise;protocol=get;streams=2"},
      {"gathers", 2, "ring;protocol=put;streams=1"},
      {"chain", 2, "pairwise;protocol=put;streams=2;chunks=2"},
      {"chain", 2, "sequential;protocol=get;streams=1"},
      {"matmul", 3, "pairwise;placement=shared;protocol=put;streams=4"},
      {"matmul", 2, "pairwise;placement=shared;protocol=get;streams=3;chunks=2"},
      {"matmul", 3, "batched;protocol=put;streams=3"},
      {"two", 2, "batched;protocol=get;streams=2;chunks=2"},
      {"matmul", 4, "coalesced;protocol=put;streams=4"},
      {"two", 2, "coalesced;protocol=get;streams=2;chunks=2"},
      {"matmul", 4, "coalesced;protocol=put;streams=4;tail-split=2"},
      {"matmul", 3, "bulk;protocol=put;streams=1"},
      {"linear+bias", 2, "bulk;protocol=get;streams=1;chunks=2"},
      {"scatter", 2, "ring;protocol=put;streams=6;chunks=2"},
      {"scatter", 3, "ring;protocol=get;streams=4"},
      {"scatter", 3, "ring;partials=peer;protocol=put;streams=1"},
      {"scatter", 2, "ring;partials=peer;protocol=put;streams=6;chunks=2"},
      {"scatter", 3, "pairwise;protocol=get;streams=3"},
      {"scatter", 3, "pairwise;partials=peer;protocol=put;streams=3"},
      {"scatter", 2, "pairwise;partials=peer;protocol=put;streams=4;chunks=2"},
      {"uneven all-reduce", 3, "pairwise;reduction=two-shot;partials=peer;protocol=put;streams=5"},
      {"uneven all-reduce", 2, "ring;reduction=two-shot;protocol=get;streams=8"},
      {"all-reduce", 2, "bulk;protocol=put;streams=1"},
      {"sum of products", 2, "pairwise;protocol=get;streams=3"},
      {"sum of products", 2, "ring;partials=peer;protocol=put;streams=1"},
      {"function of a sum", 2, "pairwise;protocol=get;streams=4;chunks=2"},
      {"function of a sum", 3, "ring;protocol=put;streams=3"},
      {"functions of a sum for all", 2, "bulk;protocol=put;streams=1"},
      {"functions of a sum for all", 2,
       "pairwise;reduction=two-shot;protocol=put;streams=6;chunks=2"},
      {"functions of a sum for all", 2, "pairwise;reduction=two-shot;protocol=get;streams=4"},
      {"all-reduce", 2, "pairwise;reduction=two-shot;protocol=put;streams=6;chunks=2"},
      {"all-reduce", 3, "pairwise;reduction=two-shot;protocol=get;streams=4"},
      {"all-reduce", 2, "bulk;reduction=two-shot;protocol=put;streams=1"},
      {"all-reduce", 3, "bulk;reduction=two-shot;second-shot=put;streams=1"},
      {"uneven all-reduce", 2, "pairwise;reduction=two-shot;second-shot=put;streams=6;chunks=2"},
      {"all-reduce", 2, "sequential;reduction=two-shot;protocol=get;streams=2"},
      {"uneven all-reduce", 2,
       "pairwise;reduction=two-shot;placement=shared;protocol=put;"
       "streams=5;chunks=2"},
  };
}

std::vector<CaseOptions> reductionCases() {
  using namespace reductions;
  std::vector<CaseOptions> cases;
  auto add = [&](const char *name, std::string (*write)(const Options &), const Options &options) {
    cases.push_back(
        {name, options.ranks, options.dtype + " by way of " + options.partial, write(options)});
  };
  add("scatter by put", scatterByPut, {3, "f32", "f32", true});
  add("scatter by put", scatterByPut, {2, "f64", "f64"});
  add("scatter at peers", scatterAtPeers, {3, "f32", "f32", true});
  add("scatter at peers", scatterAtPeers, {2, "bf16", "f32"});
  add("scatter by get", scatterByGet, {2, "bf16", "f32"});
  add("scatter by get", scatterByGet, {4, "f16", "f16", true});
  add("scatter in chunks", scatterInChunks, {2, "bf16", "f32", true});
  add("scatter in chunks", scatterInChunks, {3, "f32", "f32"});
  add("scatter around a ring", scatterAroundRing, {3, "f32", "f32", true});
  add("scatter around a ring", scatterAroundRing, {4, "bf16", "f32"});
  add("reduce to all", reduceToAll, {3, "bf16", "bf16", true});
  add("reduce to all", reduceToAll, {2, "f16", "f32"});
  add("gather and scatter", gatherAndScatter, {2, "f32", "f32"});
  add("gather and scatter", gatherAndScatter, {3, "f32", "f32"});
  return cases;
}

static std::vector<std::string> schedulesOf(const Operation &reduction, bool isPushed) {
  std::vector<std::string> all = {"pairwise", "pairwise;chunks=2", "sequential", "bulk"};
  const std::string name = reduction.name;
  const bool isScattered = name == "scatter" || name == "function of a sum";
  if (isScattered)
    all.insert(all.end(), {"ring", "ring;chunks=2"});
  const std::string shots = isScattered ? "" : ";reduction=two-shot";
  for (size_t i = 0; i < 4 && !isScattered; ++i)
    all.push_back(all[i] + shots);
  for (size_t i = 0; i < 2 && isPushed; ++i)
    all.push_back(all[i] + shots + ";partials=peer");
  if (!isPushed) // collectives cannot push
    all.push_back(name.starts_with("uneven") ? "collective" : "collective;chunks=2");
  return all;
}

std::vector<CaseOptions> allCases() {
  std::vector<CaseOptions> all;
  for (const Operation &operation : kOperations)
    for (int64_t ranks : {2, 3, 4})
      for (const Preset &preset : pairPresets())
        for (const char *protocol : {"get", "put"})
          for (int64_t streams : {1, 2, 3})
            for (int64_t chunks : {1, 2})
              all.push_back({operation.name, ranks,
                             fmt::format("{};protocol={};streams={};chunks={}", preset.name.str(),
                                         protocol, streams, chunks)});
  for (const Operation &reduction : kReductions)
    for (int64_t ranks : {2, 3})
      for (const char *protocol : {"get", "put"})
        for (int64_t streams : {1, 3, 5})
          for (const std::string &schedule : schedulesOf(reduction, protocol == std::string("put")))
            all.push_back({reduction.name, ranks,
                           fmt::format("{};protocol={};streams={}", schedule, protocol, streams)});
  return all;
}

} // namespace braid::test
