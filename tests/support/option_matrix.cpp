//===- tests/support/option_matrix.cpp - all combinations of options, or all pairs ------------===//

#include "tests/support/option_matrix.h"

#include "tests/support/check_text.h"
#include "tests/support/configured.h"
#include "tests/support/local_mesh.h"

#include <fmt/format.h>

#include <set>

namespace braid::test {
namespace {

struct Size {
  int64_t rows, k, n; ///< rows per rank
};

const std::vector<int64_t> kRanks = {1, 2, 3, 4, 5, 7, 8};
const std::vector<int64_t> kStreams = {1, 2, 3, 4, 5};
/// Numbers of chunks per shard, limited to one chunk per row.
const std::vector<int64_t> kChunks = {1, 2, 3, 5};
/// Tail splits, limited to about one chunk per row of the last step.
const std::vector<int64_t> kTailSplits = {1, 2, 4};
const std::vector<Protocol> kProtocols = {Protocol::Get, Protocol::Put};
const std::vector<std::string> kSchedules = {
    "pairwise",  "pairwise;placement=shared", "ring", "sequential", "batched", "bulk", "coalesced",
    "collective"};
const std::vector<std::string> kOperations = {"matmul", "linear", "linear+bias", "columns"};
const std::vector<std::string> kTypes = {"bf16", "f16", "f32", "f64"};
const std::vector<Size> kSizes = {{1, 1, 1}, {1, 16, 8}, {4, 1, 5}, {13, 7, 11}, {8, 16, 12}};

std::string textOf(const Combination &c) {
  const Size &size = kSizes[c[Sizes]];
  const std::string &operation = kOperations[c[Operation]], &type = kTypes[c[Type]];
  bool isLinear = operation.starts_with("linear");
  std::string columns = operation == "columns" ? "DIDx{D}, N" : "N";
  std::string text =
      fmt::format("fusion @combination(D = {}, M = {}, K = {}, N = {}) {{\n  mesh [0 .. D)\n"
                  "  %A = input {}[DIDx{{D}}, M, K]\n",
                  kRanks[c[Ranks]], size.rows, size.k, size.n, type);
  text += fmt::format("  %B = input {}[{}]\n", type, isLinear ? "N, K" : "K, " + columns);
  if (operation == "linear+bias")
    text += fmt::format("  %bias = input {}[N]\n", type);
  text += fmt::format("  %C = {} %A, %B{} : {}[Stream{{D}}, M, {}]\n  output %C\n}}\n",
                      isLinear ? "linear" : "matmul", operation == "linear+bias" ? ", %bias" : "",
                      type, columns);
  return text;
}

CompileOptions optionsOf(const Combination &c) {
  const std::string &schedule = kSchedules[c[ScheduleChoice]];
  const bool isCut = schedule != "collective"; // collectives transfer whole blocks
  const int64_t rows = isCut ? kSizes[c[Sizes]].rows : 1;
  const int64_t chunks = std::min(kChunks[c[Chunking]], rows);
  Configuration config = configured(schedule).all;
  config.set(Knob::Protocol, isCut ? kProtocols[c[ProtocolChoice]] : Protocol::Get)
      .set(Knob::Streams, kStreams[c[Streams]])
      .set(Knob::Chunks, chunks)
      .set(Knob::TailSplit, std::min(kTailSplits[c[TailSplit]], rows / chunks));
  return {.schedule = {config}};
}

/// Advances to the next combination in lexicographic order. Returns false after the last.
bool advance(Combination &c) {
  const Combination limit = extents();
  for (size_t d = kDimensions; d-- > 0;) {
    if (++c[d] < limit[d])
      return true;
    c[d] = 0;
  }
  return false;
}

using Pair = std::array<size_t, 4>; ///< dimension, value, dimension, value

std::vector<Pair> pairsOf(const Combination &c) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kDimensions; ++i)
    for (size_t j = i + 1; j < kDimensions; ++j)
      pairs.push_back({i, c[i], j, c[j]});
  return pairs;
}

/// Extends an uncovered pair to a combination. Each other dimension gets the value that covers the
/// most additional pairs.
Combination growAround(const Pair &seed, const std::set<Pair> &uncovered) {
  const Combination limit = extents();
  Combination grown{};
  std::vector<size_t> chosen = {seed[0], seed[2]};
  grown[seed[0]] = seed[1];
  grown[seed[2]] = seed[3];
  for (size_t d = 0; d < kDimensions; ++d) {
    if (d == seed[0] || d == seed[2])
      continue;
    size_t best = 0, bestCovered = 0;
    for (size_t value = 0; value < limit[d]; ++value) {
      size_t covered = 0;
      for (size_t other : chosen)
        covered += uncovered.count(other < d ? Pair{other, grown[other], d, value}
                                             : Pair{d, value, other, grown[other]});
      if (covered > bestCovered) {
        best = value;
        bestCovered = covered;
      }
    }
    grown[d] = best;
    chosen.push_back(d);
  }
  return grown;
}

} // namespace

Combination extents() {
  return {kRanks.size(),      kStreams.size(),   kChunks.size(),
          kTailSplits.size(), kProtocols.size(), kSchedules.size(),
          kOperations.size(), kTypes.size(),     kSizes.size()};
}

std::vector<Combination> allCombinations() {
  std::vector<Combination> all;
  Combination c{};
  do {
    if (kTailSplits[c[TailSplit]] == 1)
      all.push_back(c);
  } while (advance(c));
  return all;
}

std::vector<Combination> pairwiseCombinations() {
  const Combination limit = extents();
  std::set<Pair> uncovered;
  for (size_t i = 0; i < kDimensions; ++i)
    for (size_t j = i + 1; j < kDimensions; ++j)
      for (size_t a = 0; a < limit[i]; ++a)
        for (size_t b = 0; b < limit[j]; ++b)
          uncovered.insert({i, a, j, b});
  std::vector<Combination> selected;
  while (!uncovered.empty()) {
    selected.push_back(growAround(*uncovered.begin(), uncovered));
    for (const Pair &pair : pairsOf(selected.back()))
      uncovered.erase(pair);
  }
  return selected;
}

std::string str(const Combination &c) {
  return fmt::format("--schedule '{}'\n{}", optionsOf(c).schedule.str(), textOf(c));
}

Status checkCombination(const Combination &combination) {
  return checkText(textOf(combination), optionsOf(combination)).annotated(str(combination));
}

Status runCombination(const Combination &combination) {
  std::unique_ptr<Source> source = parseSource("combination.braid", textOf(combination));
  Result<Compiled> compiled = compile(*source, optionsOf(combination));
  if (!compiled)
    return compiled.status().annotated(str(combination) + source->diags.str());
  BackendRegistry registry = builtinBackends();
  RunOptions options;
  options.iterations = 20;
  options.verify = true;
  Result<RunReport> report = run(*compiled, *registry.find("cpu"), options);
  if (!report)
    return report.status().annotated(str(combination));
  return Status::ok();
}

} // namespace braid::test
