//===- tests/fuzz/fuzz_host_messages.cpp - fuzzes decoders of messages from ranks or hosts ----===//

#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/host_messages.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

namespace braid {
namespace {

constexpr int64_t kRanks = 4, kHosts = 2;

JobMemory makeMemory() {
  auto made = JobMemory::create(kRanks, {0, kHosts});
  require(made.isOk());
  return std::move(*made);
}

/// An accepted cause must survive being encoded and decoded. The texts are compared only after the
/// cause has been encoded once, because a number can be written in several ways and a Status
/// escapes control characters.
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
  JobMemory memory = makeMemory();
  const bool isGood = takeParts(text, memory, 1, 1).isOk();
  require(isGood || !memory.haveCome(memory.ranksOf(1), 1));
  require(!memory.haveCome(memory.ranksOf(0), 1));
}

void checkHello(llvm::StringRef text) {
  if (const auto hello = ClientHello::decode(text))
    require(hello->rank >= 0 && hello->rank < hello->ranks &&
            ClientHello::decode(hello->encode())->ranks == hello->ranks);
}

/// A heartbeat (sign) of another host must not change the slots of host 0.
void checkSign(llvm::StringRef text) {
  static JobMemory memory = makeMemory();
  const std::string before = encodeSign({}, memory);
  const bool isGood = takeSign(text, memory, 1, 0).isOk();
  require(encodeSign({}, memory) == before);
  require(!isGood || takeSign(text, memory, 1, 0).isOk());
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  braid::checkCause(text);
  braid::checkParts(text);
  braid::checkSign(text);
  braid::checkHello(text);
  return 0;
}
