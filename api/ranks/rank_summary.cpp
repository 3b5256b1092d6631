//===- api/ranks/rank_summary.cpp - the results of one rank's runs ----------------------------===//

#include "api/ranks/rank_summary.h"

#include "ir/failure.h"
#include "runtime/numeric.h"
#include "runtime/split_mix.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

namespace braid {

/// Writes 64-bit words: times and counts, the digests, and four words for each span.
std::string RankSummary::encode() const {
  std::vector<uint64_t> words = {std::bit_cast<uint64_t>(runSeconds), uint64_t(elementsCompared),
                                 digests.size(), spans.size()};
  words.insert(words.end(), digests.begin(), digests.end());
  for (const Span &span : spans)
    words.insert(words.end(), {uint64_t(span.tag.command) << 32 | span.tag.run, span.stream,
                               uint64_t(span.beginNs), uint64_t(span.endNs)});
  return {reinterpret_cast<const char *>(words.data()), words.size() * sizeof(uint64_t)};
}

Result<RankSummary> RankSummary::decode(const std::string &bytes, const Plan &plan) {
  constexpr size_t kHeader = 4, kSpan = 4;
  const Status malformed = badInput("a rank's summary has the format of another version");
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint64_t));
  if (words.size() < kHeader || bytes.size() % sizeof(uint64_t) != 0)
    return malformed;
  const size_t after = words.size() - kHeader, digests = words[2], spans = words[3];
  if (digests > after || spans != (after - digests) / kSpan || (after - digests) % kSpan != 0)
    return malformed;
  RankSummary summary{.runSeconds = std::bit_cast<double>(words[0]),
                      .elementsCompared = static_cast<int64_t>(words[1])};
  llvm::ArrayRef<uint64_t> rest = llvm::makeArrayRef(words).drop_front(kHeader);
  summary.digests = rest.take_front(digests).vec();
  for (rest = rest.drop_front(digests); !rest.empty(); rest = rest.drop_front(kSpan)) {
    const auto command = static_cast<uint32_t>(rest[0] >> 32), run = static_cast<uint32_t>(rest[0]);
    if (command >= plan.commands.size() || rest[1] >= plan.streams.size())
      return malformed;
    summary.spans.push_back({{&plan, command, run},
                             static_cast<uint32_t>(rest[1]),
                             static_cast<int64_t>(rest[2]),
                             static_cast<int64_t>(rest[3])});
  }
  return summary;
}

//===- Digests of reproducible runs -----------------------------------------------------------===//

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

uint64_t digestOf(uint64_t before, llvm::StringRef bytes) {
  const std::array<uint64_t, 2> both = {before, llvm::xxHash64(bytes)};
  return llvm::xxHash64(llvm::StringRef(reinterpret_cast<const char *>(both.data()), sizeof both));
}

Result<std::vector<uint64_t>> mergeDigests(const std::vector<OutputOfRanks> &outputs,
                                           llvm::ArrayRef<RankSummary> ranks) {
  std::vector<uint64_t> merged(outputs.size(), 0);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].digests.size() != outputs.size())
      return badInput("expected all ranks to have the same number of outputs");
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint64_t own = ranks[rank].digests[i], first = ranks.front().digests[i];
      if (outputs[i].isWhole && own != first)
        return Status(StatusCode::WrongResult,
                      fmt::format("%{}: expected the same bits on every rank, but rank {} (digest "
                                  "{:016x}) differs from rank 0 ({:016x})",
                                  outputs[i].name, rank, own, first));
      merged[i] = digestOf(merged[i], {reinterpret_cast<const char *>(&own), sizeof own});
    }
  }
  return merged;
}

} // namespace braid
