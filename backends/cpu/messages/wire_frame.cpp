//===- backends/cpu/messages/wire_frame.cpp - messages of ranks, as bytes of a connection -----===//

#include "backends/cpu/messages/wire_frame.h"

#include "ir/failure.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

#include <cassert>
#include <cstring>

namespace braid {
namespace {

constexpr char kWireMagic[] = {'b', 'r', 'm', '1'};
constexpr size_t kKindAt = 4, kNumberAt = 8, kCommandAt = 12, kRunAt = 16, kPartAt = 20,
                 kMessageAt = 24, kOffsetAt = 32;

using llvm::support::endian::read32le;
using llvm::support::endian::read64le;
using llvm::support::endian::write32le;
using llvm::support::endian::write64le;

/// Bytes of a part that starts there, if parts are as long as they can be.
uint64_t partAt(const WireFrame &frame) {
  return std::min<uint64_t>(kMostPart, frame.messageBytes - frame.offset);
}

} // namespace

void encode(const WireFrame &frame, char *header) {
  std::memset(header, 0, kWireHeaderBytes);
  std::memcpy(header, kWireMagic, sizeof kWireMagic);
  header[kKindAt] = static_cast<char>(frame.kind);
  write32le(header + kNumberAt, frame.number);
  write32le(header + kCommandAt, frame.command);
  write32le(header + kRunAt, frame.run);
  write32le(header + kPartAt, frame.partBytes);
  write64le(header + kMessageAt, frame.messageBytes);
  write64le(header + kOffsetAt, frame.offset);
}

Result<WireFrame> decodeWireFrame(llvm::StringRef header) {
  assert(header.size() == kWireHeaderBytes);
  const char *at = header.data();
  const llvm::StringRef magic(kWireMagic, sizeof kWireMagic);
  if (header.take_front(magic.size()) != magic)
    return badInput("expected a frame that begins with 'brm1', got {}",
                    llvm::toHex(header.take_front(sizeof kWireMagic)));
  const auto kind = static_cast<uint8_t>(at[kKindAt]);
  if (kind != static_cast<uint8_t>(WireKind::Ready) && kind != static_cast<uint8_t>(WireKind::Data))
    return badInput("expected a frame of kind 1 or 2, got {}", kind);
  if (at[kKindAt + 1] != 0 || at[kKindAt + 2] != 0 || at[kKindAt + 3] != 0)
    return badInput("expected zeros after the kind of a frame");
  const WireFrame frame{static_cast<WireKind>(kind), read32le(at + kNumberAt),
                        read32le(at + kCommandAt),   read32le(at + kRunAt),
                        read32le(at + kPartAt),      read64le(at + kMessageAt),
                        read64le(at + kOffsetAt)};
  if (frame.messageBytes > kMostMessage)
    return badInput("expected a message of at most {} bytes, got {}", kMostMessage,
                    frame.messageBytes);
  if (frame.kind == WireKind::Ready && (frame.partBytes != 0 || frame.offset != 0))
    return badInput("expected no data from a receiver, got {} bytes", frame.partBytes);
  if (frame.kind == WireKind::Data &&
      (frame.offset > frame.messageBytes || frame.partBytes != partAt(frame) ||
       (frame.partBytes == 0 && frame.messageBytes != 0)))
    return badInput("expected a part of at most {} bytes of a message of {}, got {} bytes at {}",
                    kMostPart, frame.messageBytes, frame.partBytes, frame.offset);
  return frame;
}

} // namespace braid
