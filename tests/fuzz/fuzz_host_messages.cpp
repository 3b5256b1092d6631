//===- tests/fuzz/fuzz_host_messages.cpp - any bytes, as what another host says ---------------===//

#include "runtime/job/network/host_messages.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

namespace braid {
namespace {

constexpr int64_t kRanks = 4;

JobMemory &jobMemory() {
  static JobMemory memory = [] {
    auto made = JobMemory::create(kRanks);
    require(made.isOk());
    return std::move(*made);
  }();
  return memory;
}

/// What is accepted is what would be said for it. A status escapes what moves a terminal's cursor,
/// so the text of a cause is the same from the second time on.
void checkFields(llvm::StringRef body) {
  if (const auto hello = HostHello::decode(body))
    require(hello->encode() == body);
  if (const auto ping = HostPing::decode(body))
    require(ping->encode() == body);
  if (const auto cause = decodeCause(body, kRanks)) {
    require(!cause->status.isOk() && cause->rank >= -1 && cause->rank < kRanks);
    const std::string said = encodeCause(*cause);
    const auto heard = decodeCause(said, kRanks);
    require(heard.isOk() && encodeCause(*heard) == said);
  }
}

void checkParts(llvm::StringRef body, uint32_t sequence) {
  const Frame frame{.kind = FrameKind::HostGather, .sequence = sequence, .body = body.str()};
  for (const size_t ranks : {size_t(1), size_t(kRanks)})
    if (const auto gathered = decodeGathered(frame, ranks))
      require(gathered->parts.size() == ranks &&
              encodeGathered(FrameKind::HostGather, *gathered) == frame);
}

/// Slot by slot, and all at once.
void checkSlots(llvm::StringRef body) {
  JobMemory &memory = jobMemory();
  auto isTheirs = [](int64_t rank) { return rank != 1; };
  SlotReader reader{body};
  bool isGood = true;
  while (isGood && !reader.isAtEnd()) {
    const llvm::StringRef before = reader.body;
    const Result<int64_t> rank = reader.rank();
    isGood =
        rank && *rank < kRanks && isTheirs(*rank) && reader.fields(memory.slot(*rank), 0).isOk();
    if (!isGood)
      break;
    std::string again;
    appendSlots(memory, *rank, 1, 0, again);
    require(before.drop_back(reader.body.size()) == again);
  }
  require(applySlots(body, memory, 0, isTheirs).isOk() == isGood);
  require(applySlots(body, memory, -12345, isTheirs).isOk() == isGood);
  std::string ofRank1;
  appendSlots(memory, 1, 1, 0, ofRank1);
  static const std::string kUntouched = ofRank1;
  require(ofRank1 == kUntouched);
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  braid::checkFields(bytes);
  braid::checkParts(bytes, static_cast<uint32_t>(size));
  braid::checkSlots(bytes);
  return 0;
}
