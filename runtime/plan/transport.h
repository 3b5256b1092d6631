//===- runtime/plan/transport.h - data transport between ranks on one host --------------------===//
#pragma once

#include <cstdint>

namespace braid {

/// Mechanism for transfers within a host. Ranks on different hosts always exchange messages.
enum class Transport : uint8_t {
  PeerMemory, ///< by copies, signals and awaits
  Messages,   ///< by groups of sends and receives, and by collectives
};

} // namespace braid
