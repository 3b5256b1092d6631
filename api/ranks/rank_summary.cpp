//===- api/ranks/rank_summary.cpp - the results of one rank's runs ----------------------------===//

#include "api/ranks/rank_summary.h"

#include "ir/failure.h"
#include "runtime/numeric.h"
#include "runtime/split_mix.h"

#include <bit>
#include <cstring>

namespace braid {
namespace {

constexpr size_t kSpanWords = 4;

} // namespace

/// The encoding consists of 64-bit words: the run time, the digests, and four words per span.
std::string RankSummary::encode() const {
  std::vector<uint64_t> words = {std::bit_cast<uint64_t>(runSeconds)};
  words.insert(words.end(), digests.begin(), digests.end());
  for (const Span &span : spans)
    words.insert(words.end(), {uint64_t(span.tag.command) << 32 | span.tag.run, span.stream,
                               uint64_t(span.beginNs), uint64_t(span.endNs)});
  return {reinterpret_cast<const char *>(words.data()), words.size() * sizeof(uint64_t)};
}

Result<RankSummary> RankSummary::decode(llvm::StringRef bytes, const Plan &plan) {
  const Status malformed = badInput("a rank's summary was written by another version of Braid");
  const size_t header = 1 + plan.outputs.size(), count = bytes.size() / sizeof(uint64_t);
  if (bytes.size() % sizeof(uint64_t) != 0 || count < header || (count - header) % kSpanWords != 0)
    return malformed;
  std::vector<uint64_t> words(count);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  RankSummary summary{std::bit_cast<double>(words[0]),
                      {words.begin() + 1, words.begin() + static_cast<ptrdiff_t>(header)},
                      {}};
  for (size_t i = header; i < count; i += kSpanWords) {
    const auto command = static_cast<uint32_t>(words[i] >> 32);
    if (command >= plan.commands.size() || words[i + 1] >= plan.streams.size())
      return malformed;
    summary.spans.push_back({{&plan, command, static_cast<uint32_t>(words[i])},
                             static_cast<uint32_t>(words[i + 1]),
                             static_cast<int64_t>(words[i + 2]),
                             static_cast<int64_t>(words[i + 3])});
  }
  return summary;
}

void drawNumbers(DType dtype, void *data, int64_t count, uint64_t seed) {
  withElement(dtype, [&](auto element) {
    using Element = decltype(element);
    auto *numbers = static_cast<Element *>(data);
    uint64_t state = mixBits(seed);
    for (int64_t i = 0; i < count; ++i) {
      const auto drawn = static_cast<int64_t>(mixBits(state += kSplitMixStep));
      numbers[i] = narrow<Element>(static_cast<Accumulator<Element>>(double(drawn) * 0x1p-63));
    }
  });
}

} // namespace braid
