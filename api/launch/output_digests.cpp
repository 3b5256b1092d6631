//===- api/launch/output_digests.cpp - whether reproducible runs have the same bits -----------===//

#include "api/launch/output_digests.h"

#include "runtime/numeric.h"
#include "runtime/split_mix.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

namespace braid {

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
                                           const std::vector<std::vector<uint64_t>> &ofRanks) {
  std::vector<uint64_t> merged(outputs.size(), 0);
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t rank = 0; rank < ofRanks.size(); ++rank) {
      if (ofRanks[rank].size() != outputs.size())
        return Status(StatusCode::BadInput, "a rank has another number of outputs");
      const uint64_t mine = ofRanks[rank][i], first = ofRanks.front()[i];
      if (outputs[i].isWhole && mine != first)
        return Status(StatusCode::WrongResult,
                      fmt::format("%{}: every rank has it whole, but its bits on rank {} (digest "
                                  "{:016x}) are not those on rank 0 ({:016x})",
                                  outputs[i].name, rank, mine, first));
      const auto *bytes = reinterpret_cast<const char *>(&mine);
      merged[i] = digestOf(merged[i], llvm::StringRef(bytes, sizeof mine));
    }
  return merged;
}

} // namespace braid
