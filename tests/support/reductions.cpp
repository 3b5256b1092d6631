//===- tests/support/reductions.cpp - hand-written reductions ---------------------------------===//

#include "tests/support/reductions.h"

#include "tests/support/case_file.h"

#include <utility>
#include <vector>

namespace braid::test::reductions {
namespace {

/// Returns the named text with small extents. The numbers of rows and columns differ.
std::string textOf(const char *name, const Options &options) {
  std::string text = caseNamed("tests/support/inputs/reductions.cases", name);
  const bool isLinear = options.hasBias;
  const std::pair<std::string, std::string> words[] = {
      {"$B_AXES", isLinear ? "4, DIDx{D}, 2" : "DIDx{D}, 2, 4"},
      {"$B_LOCAL", isLinear ? "4, 1, 2" : "1, 2, 4"},
      {"$BIAS_INPUT", isLinear ? "  %bias = input $T[4]\n" : ""},
      {"$BIAS_PARAM", isLinear ? ", %bias: $T[4]" : ""},
      {"$ADDED", isLinear ? ", %bias" : ""},
      {"$TRAVEL", options.partial == options.dtype ? "" : " partial $P"},
      {"$GEMM", isLinear ? "linear" : "matmul"},
      {"$D", std::to_string(options.ranks)},
      {"$T", options.dtype},
      {"$P", options.partial},
  };
  for (const auto &[word, meaning] : words)
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
      text.replace(at, word.size(), meaning);
  return text;
}

} // namespace

std::string scatterByPut(const Options &options) { return textOf("scatterByPut", options); }
std::string scatterAtPeers(const Options &options) { return textOf("scatterAtPeers", options); }
std::string scatterByGet(const Options &options) { return textOf("scatterByGet", options); }
std::string scatterInChunks(const Options &options) { return textOf("scatterInChunks", options); }
std::string scatterAroundRing(const Options &options) {
  return textOf("scatterAroundRing", options);
}
std::string reduceToAll(const Options &options) { return textOf("reduceToAll", options); }
std::string gatherAndScatter(const Options &options) { return textOf("gatherAndScatter", options); }

} // namespace braid::test::reductions
