//===- tests/fuzz/fuzz_frame.cpp - any bytes, as what a connection brings ---------------------===//

#include "runtime/job/bootstrap/client.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

namespace braid {
namespace {

constexpr size_t kLimit = size_t(1) << 16;

struct Decoded {
  std::vector<Frame> frames;
  std::string message; ///< the failure's
  bool isInside = false;
  bool operator==(const Decoded &) const = default;
};

/// `bytes` in pieces whose lengths are those of `steps`, over and over.
Decoded decode(llvm::StringRef bytes, llvm::StringRef steps) {
  FrameDecoder decoder(kLimit);
  Decoded decoded;
  for (size_t i = 0; !bytes.empty(); ++i) {
    size_t step = steps.empty() ? bytes.size() : 1 + static_cast<uint8_t>(steps[i % steps.size()]);
    Status status = decoder.feed(bytes.take_front(step));
    bytes = bytes.drop_front(std::min(step, bytes.size()));
    while (std::optional<Frame> frame = decoder.next())
      decoded.frames.push_back(std::move(*frame));
    require(decoded.message.empty() || status.message() == decoded.message);
    decoded.message = status.message();
  }
  decoded.isInside = decoder.isInside();
  return decoded;
}

void checkFrames(llvm::StringRef bytes, llvm::StringRef steps) {
  Decoded whole = decode(bytes, "");
  Decoded split = decode(bytes, steps);
  require(whole.frames == split.frames && whole.message == split.message);
  std::string again;
  for (const Frame &frame : whole.frames)
    again += encode(frame);
  require(bytes.take_front(again.size()) == again);
  // The rest is the beginning of a frame, or nothing.
  require(whole.isInside == (again.size() < bytes.size()));
}

void checkBody(llvm::StringRef body) {
  if (auto parts = decodeParts(body))
    require(encodeParts(*parts) == body);
  if (auto hello = ClientHello::decode(body)) {
    require(hello->encode() == body);
    require(hello->rank >= 0 && hello->rank < hello->ranks);
  }
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  // The last bytes say where to split.
  llvm::StringRef steps = bytes.take_back(std::min<size_t>(size, 4));
  braid::checkFrames(bytes, steps);
  braid::checkBody(bytes);
  for (const braid::Frame &frame : braid::decode(bytes, "").frames)
    braid::checkBody(frame.body);
  return 0;
}
