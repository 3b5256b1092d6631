//===- runtime/plan/transport.h - how data travels between ranks ------------------------------===//
#pragma once

#include <cstdint>

namespace braid {

enum class Transport : uint8_t {
  PeerMemory, ///< by copies, signals and awaits
  Messages,   ///< by groups of sends and receives, and by collectives
};

} // namespace braid
