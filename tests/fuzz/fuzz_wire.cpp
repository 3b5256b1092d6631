//===- tests/fuzz/fuzz_wire.cpp - any bytes, as what a peer sends -----------------------------===//

#include "backends/cpu/messages/incoming.h"
#include "tests/fuzz/require.h"

#include <cstdlib>
#include <cstring>

namespace braid {
namespace {

struct Taken {
  std::string message; ///< of the failure
  std::vector<WireFrame> ready;
  std::vector<int64_t> moved;
  std::string data;
  bool operator==(const Taken &) const = default;
};

/// `bytes` in pieces of `step`, to a rank that expects three messages.
Taken take(llvm::StringRef bytes, size_t step) {
  const int64_t sizes[] = {5, 0, int64_t(kMostPart) + 3};
  std::vector<std::vector<char>> places;
  std::vector<Transfer> receives;
  for (int64_t size : sizes) {
    places.emplace_back(static_cast<size_t>(size));
    receives.push_back({.direction = Direction::Receive,
                        .peer = 1,
                        .data = places.back().data(),
                        .bytes = size,
                        .number = static_cast<uint32_t>(receives.size())});
  }
  Incoming incoming;
  for (Transfer &receive : receives)
    incoming.expect(receive);
  Taken taken;
  while (!bytes.empty() && taken.message.empty()) {
    const llvm::MutableArrayRef<char> place = incoming.next();
    require(!place.empty());
    const size_t count = std::min({bytes.size(), place.size(), step});
    std::memcpy(place.data(), bytes.data(), count);
    bytes = bytes.drop_front(count);
    taken.message = incoming.take(count).message();
  }
  taken.ready.assign(incoming.ready().begin(), incoming.ready().end());
  for (const Transfer &receive : receives) {
    require(receive.moved <= receive.bytes);
    taken.moved.push_back(receive.moved);
  }
  taken.data.assign(places[0].begin(), places[0].end());
  return taken;
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  const braid::Taken whole = braid::take(bytes, bytes.size() + 1);
  braid::require(whole == braid::take(bytes, 1) && whole == braid::take(bytes, 7));
  if (size < braid::kWireHeaderBytes)
    return 0;
  const llvm::StringRef header = bytes.take_front(braid::kWireHeaderBytes);
  if (const auto frame = braid::decodeWireFrame(header)) {
    char again[braid::kWireHeaderBytes];
    encode(*frame, again);
    braid::require(header == llvm::StringRef(again, sizeof again));
  }
  return 0;
}
