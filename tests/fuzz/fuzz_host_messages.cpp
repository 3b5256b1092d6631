//===- tests/fuzz/fuzz_host_messages.cpp - any bytes, as what a rank or another host says -----===//

#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/host_messages.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

namespace braid {
namespace {

constexpr int64_t kRanks = 4;

JobMemory makeMemory() {
  auto made = JobMemory::create(kRanks);
  require(made.isOk());
  return std::move(*made);
}

/// A number has several texts, and a status escapes characters that move a terminal's cursor, so a
/// text is the same from the second time on.
void checkCause(llvm::StringRef text) {
  const auto cause = decodeCause(text, kRanks);
  if (!cause)
    return;
  require(!cause->status.isOk() && cause->rank >= -1 && cause->rank < kRanks);
  const std::string said = encodeCause(*cause);
  const auto heard = decodeCause(said, kRanks);
  require(heard.isOk() && encodeCause(*heard) == said);
}

void checkParts(llvm::StringRef text) {
  for (const size_t ranks : {size_t(1), size_t(kRanks)})
    if (const auto gathered = GatheredParts::decode(text, ranks)) {
      const auto again = GatheredParts::decode(gathered->encode(), ranks);
      require(gathered->parts.size() == ranks && again && again->parts == gathered->parts);
    }
}

void checkSign(llvm::StringRef text) {
  if (const auto sign = HostSign::decode(text)) {
    const std::string said = sign->encode();
    llvm::StringRef rest = said;
    require(HostSign::decode(rest)->encode() == said && rest.empty());
  }
}

void checkHello(llvm::StringRef text) {
  if (const auto hello = ClientHello::decode(text))
    require(hello->rank >= 0 && hello->rank < hello->ranks &&
            ClientHello::decode(hello->encode())->ranks == hello->ranks);
}

/// The slot of rank 1 stays as it is.
void checkSlots(llvm::StringRef text) {
  static JobMemory memory = makeMemory();
  auto isTheirs = [](int64_t rank) { return rank != 1; };
  std::string before, after, again;
  appendSlots(memory, {1, 1}, 0, before);
  const bool isGood = applySlots(text, memory, -12345, isTheirs).isOk();
  appendSlots(memory, {1, 1}, 0, after);
  require(before == after);
  appendSlots(memory, {0, kRanks}, 0, again);
  require(applySlots(again, memory, 0, isTheirs).isOk());
  require(!isGood || applySlots(text, memory, 0, isTheirs).isOk());
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  braid::checkCause(text);
  braid::checkParts(text);
  braid::checkSign(text);
  braid::checkSlots(text);
  braid::checkHello(text);
  return 0;
}
