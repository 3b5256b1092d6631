//===- backends/cpu/messages/wire_frame.h - messages of ranks, as bytes of a connection -------===//
//
// A frame, all numbers little endian:
//
//   4 bytes   magic "brm1" (the last byte is the version)
//   1 byte    kind
//   3 bytes   0
//   4 bytes   number of the message, among all from its sender to its receiver, from 0 on
//   4 bytes   number of the command that it belongs to, on the rank that writes this
//   4 bytes   that command's run
//   4 bytes   bytes of data that follow: at most kMostPart
//   8 bytes   bytes of the whole message
//   8 bytes   where in the message the data begins
//   ...       data
//
// The receiver of a message says that it is ready, and only then the sender sends it, in parts.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace braid {

enum class WireKind : uint8_t {
  Ready = 1, ///< from the receiver
  Data,      ///< from the sender
};

struct WireFrame {
  WireKind kind = WireKind::Ready;
  uint32_t number = 0;
  uint32_t command = 0, run = 0;
  uint32_t partBytes = 0;
  uint64_t messageBytes = 0;
  uint64_t offset = 0;
  bool operator==(const WireFrame &) const = default;
};

inline constexpr size_t kWireHeaderBytes = 40;
inline constexpr uint32_t kMostPart = uint32_t(1) << 20;
inline constexpr uint64_t kMostMessage = uint64_t(1) << 48;

/// Writes kWireHeaderBytes.
void encode(const WireFrame &frame, char *header);
/// Of kWireHeaderBytes. BadInput for what encode() does not make of a part within its message.
Result<WireFrame> decodeWireFrame(llvm::StringRef header);

} // namespace braid
