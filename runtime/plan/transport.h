//===- runtime/plan/transport.h - how data travels between ranks of one host ------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Between ranks of different hosts it always travels by messages.
enum class Transport : uint8_t {
  PeerMemory, ///< by copies, signals and awaits
  Messages,   ///< by groups of sends and receives, and by collectives
};

/// The memory that collectives read and write if they stay whole.
enum class Operands : uint8_t {
  Anywhere,
  InSymmetricArena, ///< which is a window: what is the program's elsewhere is copied there and back
};

} // namespace braid
